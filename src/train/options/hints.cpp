#include "train/options/hints.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "train/options/meaning.h"

namespace burnish::train {

namespace {

// Well beyond what anybody publishes: a hint that speaks up at usual rates is not read.
constexpr double kHighForAdapters = 5e-3, kHighForWholeModels = 5e-5, kLowForProdigy = 0.05;

}  // namespace

std::string learning_rate_hint(const TrainOptions& o) {
  if (o.step.optimizer.name.starts_with("prodigy")) {
    if (o.step.learning_rate >= kLowForProdigy) return "";
    return fmt::format("learning_rate {}: {} finds the rate and multiplies it by this, for which 1 is usual", o.step.learning_rate,
                       o.step.optimizer.name);
  }
  bool whole = !o.trained.whole.empty() && o.trained.adapted.empty() && o.trained.init == "pretrained";
  if (whole && o.step.learning_rate > kHighForWholeModels)
    return fmt::format("learning_rate {} is high for a whole model, which may forget what it knows; 1e-5 is usual", o.step.learning_rate);
  const bool is_word_alone = o.embedding.has_words() && o.trained.adapted.empty() && o.trained.lora_checkpoint.empty();
  if (o.trained.whole.empty() && !is_word_alone && o.step.learning_rate > kHighForAdapters)
    return fmt::format("learning_rate {} is high for an adapter; 1e-4 is usual", o.step.learning_rate);
  return "";
}

std::vector<std::string> shared_data_hints(const TrainOptions& o) {
  std::map<std::string, std::vector<std::string>> media;  // of the datasets that are learned, by what they name
  if (encodes(o)) {
    for (const auto& dataset : datasets_of(o)) {
      const auto& subset = dataset.subset;
      if (subset.visits.of_class_set || subset.metadata_path.empty()) continue;  // samples that are drawn have no files
      media[std::filesystem::absolute(subset.metadata_path).lexically_normal().string()].push_back(dataset.media);
    }
  }
  std::vector<std::string> hints;
  for (const auto& [path, words] : media) {
    const auto num_all = std::ranges::count(words, "all");
    const auto num_of_pictures = num_all + std::ranges::count(words, "pictures"),
               num_of_clips = num_all + std::ranges::count(words, "clips");
    if (std::max(num_of_pictures, num_of_clips) < 2) continue;
    hints.push_back(
        fmt::format("{} is named by {} datasets, and each takes its {}, which are visited for all of them; media pictures or "
                    "clips says which files a dataset is for",
                    path, words.size(),
                    num_all > 0        ? "pictures and clips"
                    : num_of_clips > 1 ? "clips"
                                       : "pictures"));
  }
  return hints;
}

std::string length_hint(const TrainOptions& o) {
  const bool asks_for_epochs = contains(o.given, "num_epochs") || o.course.num_epochs != CourseSettings().num_epochs;
  if (o.course.max_steps == 0 || !asks_for_epochs) return "";
  return fmt::format("num_epochs {} has no effect beside max_steps {}, after which the run ends; for epochs take max_steps out",
                     o.course.num_epochs, o.course.max_steps);
}

}  // namespace burnish::train
