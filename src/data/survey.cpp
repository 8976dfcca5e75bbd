#include "data/survey.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/progress.h"
#include "base/text.h"
#include "data/first_frame.h"
#include "data/sampler.h"

namespace burnish::data {

namespace {

constexpr int kLookBits = 64;
constexpr size_t kMostTags = 20;

/// The representative of a group in a forest of them, with shorter ways for the next time.
size_t root_of(std::vector<size_t>& parents, size_t i) {
  while (parents[i] != i) i = parents[i] = parents[parents[i]];
  return i;
}

std::vector<uint64_t> looks_of(const std::vector<std::string>& files) {
  std::vector<uint64_t> looks(files.size());
  Progress progress("compare pictures", std::ssize(files));
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = 0; first < std::ssize(files); first += kAtOnce) {
    if (interrupted()) throw Error(Exit::interrupted, "data", "interrupted while comparing pictures");
    auto last = std::min<int64_t>(first + kAtOnce, std::ssize(files));
    at::parallel_for(first, last, 1, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) looks[i] = look_of(first_frame(files[i]));
    });
    progress.update(last);
  }
  return looks;
}

/// Of every clip, each once; layers are no clips.
std::vector<ClipSurvey> clips_of(const Dataset& dataset) {
  if (target_of(dataset.options().columns).is == Column::Is::layers) return {};
  std::vector<std::string> files;
  for (auto row : dataset.rows()) {
    const auto& entry = dataset.row(row);
    if (entry.window && !contains(files, entry.file)) files.push_back(entry.file);
  }
  std::vector<ClipSurvey> found(files.size());
  Progress progress("look at clips", std::ssize(files));
  constexpr int64_t kAtOnce = 16;
  for (int64_t first = 0; first < std::ssize(files); first += kAtOnce) {
    if (interrupted()) throw Error(Exit::interrupted, "data", "interrupted while looking at clips");
    auto last = std::min<int64_t>(first + kAtOnce, std::ssize(files));
    at::parallel_for(first, last, 1, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i) found[i] = survey_clip(files[i]);
    });
    progress.update(last);
  }
  return found;
}

int64_t count_words(const std::string& text) {
  int64_t words = 0;
  bool inside = false;
  for (char c : text) {
    bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    words += !blank && !inside;
    inside = !blank;
  }
  return words;
}

CaptionCounts count_captions(const Dataset& dataset) {
  CaptionCounts counts;
  std::vector<int64_t> words;
  std::set<std::string> different;
  std::map<std::string, int64_t> tags;
  for (auto row : dataset.rows()) {
    const auto& separator = dataset.options().subsets[dataset.row(row).subset].visits.captions.separator;
    for (const auto& caption : dataset.row(row).captions) {
      words.push_back(count_words(caption.text));
      counts.num_empty += words.back() == 0;
      different.insert(caption.text);
      std::set<std::string> own;
      for (size_t start = 0; start <= caption.text.size();) {
        auto end = std::min(caption.text.find(separator, start), caption.text.size());
        if (auto tag = trim(std::string_view(caption.text).substr(start, end - start)); !tag.empty()) own.emplace(tag);
        start = end + separator.size();
      }
      for (const auto& tag : own) ++tags[tag];
    }
  }
  std::ranges::sort(words);
  counts.num_captions = std::ssize(words);
  counts.num_different = std::ssize(different);
  counts.median_words = words.empty() ? 0 : words[words.size() / 2];
  counts.most_words = words.empty() ? 0 : words.back();
  counts.tags.assign(tags.begin(), tags.end());
  std::ranges::stable_sort(counts.tags, std::greater<>(), [](const auto& tag) { return tag.second; });
  counts.tags.resize(std::min(counts.tags.size(), kMostTags));
  return counts;
}

/// By the sampler itself: of an epoch every batch. An epoch of more batches than this is not looked at.
constexpr int64_t kMostBatches = 1'000'000;

void count_batches(const Dataset& dataset, int64_t batch_size, std::map<Extent, BucketCount>& buckets) {
  std::vector<SampledRow> rows;
  std::vector<SampledSet> sets;
  for (auto row : dataset.rows()) rows.push_back({row, dataset.extent(row), dataset.row(row).subset});
  for (const auto& subset : dataset.options().subsets) sets.push_back({subset.visits.num_repeats, subset.visits.of_class_set});
  Sampler sampler(rows, sets, batch_size, 0);
  for (int64_t i = 0; i < std::min(sampler.batches_per_epoch(), kMostBatches); ++i) {
    auto visits = sampler.batch(i);
    auto& bucket = buckets.at(dataset.extent(visits.front().row));
    bucket.num_visits += std::ssize(visits);
    ++bucket.num_batches;
  }
}

int64_t area(Size size) { return size.height * size.width; }

}  // namespace

uint64_t look_of(const at::Tensor& pixels_HW3) {
  constexpr int64_t kRows = 8, kColumns = 9;
  Size picture{pixels_HW3.size(0), pixels_HW3.size(1)};
  // The whole picture, out of shape: each side is scaled for itself.
  auto wide = resize_and_crop(pixels_HW3, Crop{covering_size(picture, {kRows, kColumns})});
  auto small = wide.to(at::kFloat).mean(2);
  uint64_t look = 0;
  auto height = small.size(0), width = small.size(1);
  auto mean_of = [&](int64_t row, int64_t column) {
    auto top = row * height / kRows, left = column * width / kColumns;
    auto block = small.narrow(0, top, std::max<int64_t>(1, (row + 1) * height / kRows - top))
                     .narrow(1, left, std::max<int64_t>(1, (column + 1) * width / kColumns - left));
    return block.mean().item<float>();
  };
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t column = 0; column + 1 < kColumns; ++column) look = look << 1 | (mean_of(row, column) > mean_of(row, column + 1) ? 1 : 0);
  }
  return look;
}

double sharpness_of(const at::Tensor& pixels_HW3) {
  const auto gray_HW = gray_of(pixels_HW3).squeeze(2).contiguous();
  const auto height = gray_HW.size(0), width = gray_HW.size(1);
  const auto* gray = gray_HW.const_data_ptr<uint8_t>();
  double sum = 0, sum_of_squares = 0;
  for (int64_t y = 1; y + 1 < height; ++y) {
    for (int64_t x = 1; x + 1 < width; ++x) {
      const auto* at = gray + y * width + x;
      const double laplacian = at[-1] + at[1] + at[-width] + at[width] - 4 * at[0];
      sum += laplacian;
      sum_of_squares += laplacian * laplacian;
    }
  }
  const auto count = static_cast<double>(std::max<int64_t>(1, (height - 2) * (width - 2)));
  return sum_of_squares / count - sum / count * (sum / count);
}

std::vector<std::vector<size_t>> alike(const std::vector<uint64_t>& looks, int most_bits) {
  std::vector<size_t> parents(looks.size());
  std::iota(parents.begin(), parents.end(), size_t{0});
  // Of one part more than bits may differ, one is equal.
  const int num_parts = most_bits + 1;
  for (int part = 0; part < num_parts; ++part) {
    const int first = kLookBits * part / num_parts, end = kLookBits * (part + 1) / num_parts;
    const auto mask = end - first == kLookBits ? ~uint64_t{0} : (uint64_t{1} << (end - first)) - 1;
    std::unordered_map<uint64_t, std::vector<size_t>> equal;
    for (size_t i = 0; i < looks.size(); ++i) {
      auto& others = equal[looks[i] >> first & mask];
      bool known = false;
      for (auto other : others) {
        if (std::popcount(looks[i] ^ looks[other]) <= most_bits) parents[root_of(parents, i)] = root_of(parents, other);
        known = known || looks[i] == looks[other];
      }
      if (!known) others.push_back(i);  // one of equal looks is enough to find the others
    }
  }
  std::map<size_t, std::vector<size_t>> groups;
  for (size_t i = 0; i < looks.size(); ++i) groups[root_of(parents, i)].push_back(i);
  std::vector<std::vector<size_t>> several;
  for (auto& [root, group] : groups) {
    if (group.size() > 1) several.push_back(std::move(group));
  }
  std::ranges::sort(several);
  return several;
}

Survey survey(const Dataset& dataset, int64_t batch_size) {
  Survey found;
  std::map<Extent, BucketCount> buckets;
  std::set<std::string> seen;
  std::vector<std::string> files;
  for (auto row : dataset.rows()) {
    auto extent = dataset.extent(row);
    auto picture = dataset.looked(row).picture, size = frame_of(extent), scaled = covering_size(picture, size);
    auto& bucket = buckets[extent];
    bucket.extent = extent;
    bucket.rows.push_back(row);
    found.num_enlarged += scaled.height > picture.height || scaled.width > picture.width;
    found.cut_away += 1 - static_cast<double>(area(size)) / static_cast<double>(area(scaled));
    if (files.empty() || area(picture) < area(found.smallest)) found.smallest = picture;
    if (files.empty() || area(picture) > area(found.largest)) found.largest = picture;
    if (seen.insert(dataset.row(row).file).second) files.push_back(dataset.row(row).file);
  }
  found.num_files = std::ssize(files);
  found.cut_away /= static_cast<double>(dataset.rows().size());
  count_batches(dataset, batch_size, buckets);
  for (auto& [extent, bucket] : buckets) found.buckets.push_back(std::move(bucket));
  for (const auto& group : alike(looks_of(files))) {
    found.alike.emplace_back();
    for (auto i : group) found.alike.back().push_back(files[i]);
  }
  found.captions = count_captions(dataset);
  found.clips = clips_of(dataset);
  return found;
}

}  // namespace burnish::data
