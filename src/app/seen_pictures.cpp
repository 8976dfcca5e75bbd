#include "app/seen_pictures.h"

#include <fmt/core.h>

#include <algorithm>

#include "app/survey_text.h"
#include "base/count.h"
#include "base/input_error.h"
#include "data/survey.h"
#include "io/files.h"
#include "train/samples/dataset_choice.h"

namespace burnish::app {

namespace {

/// Stands for the caption of pictures that have none, so that these can be told from others. No caption is this control character.
constexpr const char* kNoCaption = "\x1f";

std::string caption_line(const SeenPictures& seen) {
  const auto with = count_of(std::ssize(seen.captions), "caption");
  if (seen.num_without_caption == 0) return with + "\n";
  return fmt::format("{}; {} no caption\n", with, count_of(seen.num_without_caption, "picture has", "pictures have"));
}

}  // namespace

int64_t SeenPictures::num_without(const std::string& words) const {
  return std::ranges::count_if(captions, [&](const auto& caption) { return caption.find(words) == caption.npos; });
}

SeenPictures look_at_pictures(const std::string& path) {
  if (path.empty()) config_error("new", "name a folder of pictures, or a metadata file");
  if (!io::is_there(path)) data_error("new", "there is nothing called '{}' to take pictures from; name a folder or a metadata file", path);
  train::DatasetChoice choice;
  choice.subset.metadata_path = path;
  choice.subset.visits.trigger_word = kNoCaption;
  const data::Dataset dataset({.subsets = train::subsets_of(choice, 1), .skip_bad_samples = true});
  const auto survey = data::survey(dataset, 1);
  SeenPictures seen{.path = path,
                    .num_pictures = survey.num_files,
                    .num_bad = std::ssize(dataset.bad_samples()),
                    .smallest = survey.smallest,
                    .largest = survey.largest};
  for (auto row : dataset.rows()) {
    const auto& caption = dataset.row(row).captions.front().text;
    if (caption == kNoCaption) ++seen.num_without_caption;
    else seen.captions.push_back(caption);
  }
  seen.text = text_of_sizes(survey, dataset) + caption_line(seen) + text_of_problems(survey, dataset);
  return seen;
}

}  // namespace burnish::app
