#include "train/course/data_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "base/count.h"
#include "base/log.h"
#include "base/text.h"
#include "data/mask_check.h"

namespace burnish::train {

namespace {

/// Datasets, sizes and bad samples that are named; of the others it is said how many there are.
constexpr size_t kMostNamed = 8;

/// "12 samples", "12 samples and 200 of the class set"
std::string samples_text(const Samples& samples) {
  auto num_class = std::ranges::count_if(samples.list, [&](const auto& sample) { return samples.set_of(sample).of_class_set; });
  auto text = count_of(std::ssize(samples.list) - num_class, "sample");
  return num_class == 0 ? text : fmt::format("{} and {} of the class set", text, num_class);
}

/// "5 pictures", "3 pictures and 12 clips"
std::string files_text(const Samples& samples) {
  std::set<std::string> pictures, clips;
  for (const auto& sample : samples.list) (sample.extent.frames > 1 ? clips : pictures).insert(sample.row.file);
  std::vector<std::string> kinds;
  if (!pictures.empty() || clips.empty()) kinds.push_back(count_of(std::ssize(pictures), "picture"));
  if (!clips.empty()) kinds.push_back(count_of(std::ssize(clips), "clip"));
  return join(kinds, " and ");
}

std::string totals(const Samples& samples, const Course* course) {
  auto text = samples_text(samples);
  if (course == nullptr) return fmt::format("{}, of {}", text, files_text(samples));
  auto steps = static_cast<double>(course->batches_per_epoch()) / static_cast<double>(course->batches_per_step());
  return fmt::format("{}, {} an epoch, {}; of {}, {:.4g} {} an epoch", text, count_of(course->batches_per_epoch(), "batch", "batches"),
                     count_of(course->num_steps(), "step"), files_text(samples), steps, steps == 1 ? "step" : "steps");
}

std::string visits_of(const Samples& samples, const Course* course, size_t set) {
  if (samples.sets[set].of_class_set) return ", a class set: as many visits an epoch as the others have together";
  if (course == nullptr) return "";
  auto times = course->visits_an_epoch(set);
  return times == 1 ? ", each once an epoch" : fmt::format(", each {:.4g} times an epoch", times);
}

void say_datasets(const Samples& samples, const Course* course) {
  std::vector<int64_t> counts(samples.sets.size());
  for (const auto& sample : samples.list) ++counts[sample.row.subset];
  for (size_t set = 0; set < std::min(counts.size(), kMostNamed); ++set) {
    auto path = set < samples.origins.size() ? samples.origins[set].path : "";
    info("  {}: {}{}", path.empty() ? "dataset" : path, count_of(counts[set], "sample"), visits_of(samples, course, set));
  }
  if (counts.size() > kMostNamed) info("  and {} more datasets", counts.size() - kMostNamed);
}

/// "sizes: 1024x1024 (120), 832x1216 (7), and 3 more (12)"
std::string sizes_of(const Samples& samples) {
  std::map<Extent, int64_t> counts;
  for (const auto& sample : samples.list) ++counts[sample.extent];
  std::vector<std::pair<Extent, int64_t>> sizes(counts.begin(), counts.end());
  std::ranges::stable_sort(sizes, std::greater<>(), [](const auto& size) { return size.second; });
  std::vector<std::string> named;
  int64_t num_named = 0;
  for (const auto& [extent, count] : sizes) {
    if (named.size() == kMostNamed) break;
    named.push_back(fmt::format("{} ({})", text_of(extent), count));
    num_named += count;
  }
  if (sizes.size() > kMostNamed)
    named.push_back(fmt::format("and {} more ({})", sizes.size() - kMostNamed, std::ssize(samples.list) - num_named));
  return join(named);
}

/// Counts the samples of each extent, those of class sets only where there are no others.
std::map<Extent, int64_t> counts_by_extent(const Samples& samples) {
  std::map<Extent, int64_t> counts, of_class_sets;
  for (const auto& sample : samples.list) ++(samples.set_of(sample).of_class_set ? of_class_sets : counts)[sample.extent];
  return counts.empty() ? of_class_sets : counts;
}

int64_t area_of(const Extent& extent) { return extent.height * extent.width; }

int64_t median_area(const std::map<Extent, int64_t>& counts) {
  std::vector<int64_t> areas;
  for (const auto& [extent, count] : counts) areas.insert(areas.end(), static_cast<size_t>(count), area_of(extent));
  auto middle = areas.begin() + std::ssize(areas) / 2;
  std::ranges::nth_element(areas, middle);
  return *middle;
}

void say_left_out(const data::Dataset& pictures) {
  const auto& bad = pictures.bad_samples();
  if (bad.empty()) return;
  warn("{} of the samples cannot be used and are left out:", bad.size());
  size_t num_named = 0;
  for (const auto& [row, reason] : bad) {
    if (num_named++ == kMostNamed) break;
    warn("  {}: {}", pictures.name_of(row), reason);
  }
  if (bad.size() > kMostNamed) warn("  and {} more, which `burnish data` lists", bad.size() - kMostNamed);
}

/// Pictures of a class set that are learned as well, so that what holds the model to what it knew is at odds with what it learns.
void say_of_both_sets(const Samples& samples) {
  std::set<std::string> learned;
  for (const auto& sample : samples.list) {
    if (!samples.set_of(sample).of_class_set && !sample.row.file.empty()) learned.insert(sample.row.file);
  }
  const auto is_both = [&](const auto& sample) { return samples.set_of(sample).of_class_set && learned.contains(sample.row.file); };
  if (const auto num = std::ranges::count_if(samples.list, is_both); num > 0)
    warn("{} of the class set's samples {} among those that are learned as well; name other pictures in class_metadata_path", num,
         num == 1 ? "is" : "are");
}

/// Samples that are visited and change nothing, or next to nothing.
void say_without_effect(const Samples& samples) {
  say_of_both_sets(samples);
  auto num_zero = std::ranges::count(samples.list, 0.0, [](const auto& sample) { return sample.row.loss_weight; });
  if (num_zero > 0) warn("{} a loss_weight of 0, so nothing is learned of it", count_of(num_zero, "sample has", "samples have"));
  const auto* masks = mask_of(samples.columns);
  if (!samples.pictures || masks == nullptr) return;
  for (const auto& line : data::warnings_of_masks(*samples.pictures, *masks)) warn("{}", line);
}

}  // namespace

void say_samples(const Samples& samples, const Course* course) {
  info("{}", totals(samples, course));
  say_datasets(samples, course);
  info("  sizes: {}", sizes_of(samples));
  if (samples.pictures) say_left_out(*samples.pictures);
  say_without_effect(samples);
}

Extent usual_extent(const Samples& samples) {
  const auto counts = counts_by_extent(samples);
  const auto median = median_area(counts);
  auto distance = [&](const Extent& extent) { return std::abs(area_of(extent) - median); };
  // First what is near the median, then what many have.
  auto rank = [&](const std::pair<const Extent, int64_t>& size) {
    const auto& [extent, count] = size;
    return std::tuple(10 * distance(extent) <= median, count, -distance(extent));
  };
  return std::ranges::max_element(counts, {}, rank)->first;
}

}  // namespace burnish::train
