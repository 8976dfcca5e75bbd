#include "train/run/run_metadata.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "drawing/draw.h"
#include "loras/file_metadata.h"
#include "train/course/data_summary.h"

namespace burnish::train {

namespace {

/// Of a dataset so many tags are listed, the most frequent first, and none that is longer: of captions in sentences there are as many
/// "tags" as pictures.
constexpr size_t kMostTags = 200, kLongestTag = 100;

std::map<std::string, int64_t> count_tags(const Samples& samples, size_t set) {
  std::map<std::string, int64_t> counts;
  for (const auto& sample : samples.list) {
    if (sample.row.subset != set) continue;
    for (const auto& tag : split_list(sample.row.prompt, samples.sets[set].captions.separator.front())) {
      if (tag.size() <= kLongestTag) ++counts[tag];
    }
  }
  return counts;
}

/// sd-scripts' ss_tag_frequency: {"folder": {"tag": how many samples have it}}.
std::string tag_frequency(const Samples& samples) {
  auto frequency = nlohmann::ordered_json::object();
  for (size_t set = 0; set < samples.sets.size(); ++set) {
    if (samples.sets[set].of_class_set) continue;
    const auto counts = count_tags(samples, set);
    std::vector<std::pair<std::string, int64_t>> tags(counts.begin(), counts.end());
    std::ranges::stable_sort(tags, std::greater<>(), [](const auto& tag) { return tag.second; });
    tags.resize(std::min(tags.size(), kMostTags));
    auto listed = nlohmann::ordered_json::object();
    for (const auto& [tag, count] : tags) listed[tag] = count;
    if (!listed.empty()) frequency[fmt::format("dataset {}", set + 1)] = std::move(listed);
  }
  return frequency.empty() ? "" : frequency.dump();
}

std::string trigger_words(const Samples& samples) {
  std::vector<std::string> words;
  for (const auto& set : samples.sets) {
    if (!set.trigger_word.empty() && !contains(words, set.trigger_word)) words.push_back(set.trigger_word);
  }
  return join(words);
}

/// What all samples have alike in columns of numbers that batches have alike, by the names of the values.
io::Metadata numbers_of_all(const Samples& samples) {
  io::Metadata metadata;
  for (const auto& column : samples.columns) {
    if (column.fit != Column::Fit::alike || samples.list.empty()) continue;
    const auto& first = samples.list.front();
    auto is_alike = [&](const Sample& sample) {
      return has_column(sample, column.name) && sample.row.cells.at(column.name) == first.row.cells.at(column.name);
    };
    if (!std::ranges::all_of(samples.list, is_alike)) continue;
    const auto& cell = first.row.cells.at(column.name);
    metadata[column.read_as()] = cell.is_string() ? std::string(trim(cell.get<std::string>())) : cell.dump();
  }
  return metadata;
}

int64_t count_samples(const Samples& samples, bool of_class_set) {
  return std::ranges::count_if(samples.list, [&](const auto& sample) { return samples.set_of(sample).of_class_set == of_class_set; });
}

}  // namespace

io::Metadata run_metadata(const Training& training) {
  const auto& names = training.subject.model->names();
  const auto& settings = training.settings;
  const auto& samples = training.batches.feed.samples();
  const auto extent = usual_extent(samples);
  const bool trains_whole = !training.subject.chosen.whole_components().empty();
  io::Metadata metadata = {
      {"format", "pt"},
      {"base_model", names.variant},
      {"trainer", "burnish"},
      {"resolution", text_of(extent)},
      {"modelspec.title", settings.output.name.empty() ? names.variant + (trains_whole ? ", fine-tuned" : " LoRA") : settings.output.name},
      {"modelspec.resolution", fmt::format("{}x{}", extent.width, extent.height)},
      {"ss_resolution", fmt::format("({}, {})", extent.width, extent.height)},
      {"ss_output_name", settings.output.name},
      {"ss_num_train_images", std::to_string(count_samples(samples, false))},
      {"ss_num_reg_images", std::to_string(count_samples(samples, true))},
      {"ss_learning_rate", fmt::format("{}", settings.step.learning_rate)},
      {"ss_optimizer", settings.step.optimizer.name},
      {"ss_seed", std::to_string(settings.trained.seed)},
      {"ss_tag_frequency", samples.has_captions ? tag_frequency(samples) : ""},
      {"modelspec.trigger_phrase", trigger_words(samples)},
  };
  if (const auto& by = settings.output.previews.by; !by.times.empty()) {
    metadata[drawing::kTimesKey] = fmt::format("{}", fmt::join(by.times, ","));
    metadata[drawing::kSamplerKey] = by.sampler;
  }
  metadata.merge(loras::model_metadata(names));
  metadata.merge(numbers_of_all(samples));
  for (const auto& [key, value] : settings.output.files.described) metadata["modelspec." + key] = value;
  std::erase_if(metadata, [](const auto& entry) { return entry.second.empty(); });
  return metadata;
}

io::Metadata step_metadata(const Course& course, int64_t step) {
  const auto batches = step * course.batches_per_step();
  const auto epoch = (batches + course.batches_per_epoch() - 1) / std::max<int64_t>(1, course.batches_per_epoch());
  return {{"step", std::to_string(step)}, {"ss_steps", std::to_string(step)}, {"ss_epoch", std::to_string(epoch)}};
}

}  // namespace burnish::train
