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
