#include "app/survey_text.h"

#include <fmt/core.h>

#include "base/count.h"
#include "base/text.h"

namespace burnish::app {

std::string text_of_sizes(const data::Survey& survey, const data::Dataset& dataset) {
  const auto num_rows = std::ssize(dataset.rows());
  return fmt::format("{}, {}, from {}x{} to {}x{} pixels\n{:.1f} % of a picture is cut off in the mean; {} scaled up\n",
                     count_of(survey.num_files, "picture"), count_of(num_rows, "sample"), survey.smallest.width, survey.smallest.height,
                     survey.largest.width, survey.largest.height, 100 * survey.cut_away,
                     count_of(survey.num_enlarged, "sample is", "samples are"));
}

std::string text_of_clips(const data::Survey& survey) {
  if (survey.clips.empty()) return "";
  auto text = fmt::format("\n{}:\n", count_of(std::ssize(survey.clips), "clip"));
  for (const auto& clip : survey.clips) {
    const auto& look = clip.look;
    const bool has_times = look.duration.num > 0;
    const auto seconds = static_cast<double>(look.duration.num) / static_cast<double>(look.duration.den);
    text += fmt::format("  {}: {}, ", clip.file, count_of(look.num_frames, "frame"));
    if (has_times) text += fmt::format("{:.4g} a second, {:.2f} s, ", static_cast<double>(look.num_frames) / seconds, seconds);
    text += fmt::format("{}x{} pixels", look.size.width, look.size.height);
    for (size_t i = 0; i < clip.cuts.size(); ++i)
      text += fmt::format("{}{:.4g}", i > 0 ? ", " : has_times ? "; cut at seconds " : "; cut before frames ", clip.cuts[i]);
    text += "\n";
  }
  return text;
}

std::string text_of_problems(const data::Survey& survey, const data::Dataset& dataset) {
  std::string text;
  const auto& bad = dataset.bad_samples();
  if (!bad.empty()) text += fmt::format("\n{} cannot be used:\n", count_of(std::ssize(bad), "sample"));
  for (const auto& [row, reason] : bad) text += fmt::format("  {}: {}\n", dataset.name_of(row), reason);
  if (!survey.alike.empty()) text += "\npictures that look the same:\n";
  for (const auto& group : survey.alike) text += fmt::format("  {}\n", join(group));
  return text;
}

}  // namespace burnish::app
