#include "models/families/wan/vace_scale.h"

#include <cmath>

#include "base/input_error.h"
#include "base/number.h"
#include "base/text.h"

namespace burnish::models::wan {

namespace {

const std::string kVaceScale = "vace_scale";

std::string why_no_scale(const std::string& name, const OptionValue& value) {
  const auto words = split_list(std::get<std::string>(value));
  for (const auto& word : words) {
    if (!parse_number<double>(word))
      return name + " holds '" + word + "'; a number, or one for each of VACE's blocks with commas between was expected";
  }
  return words.empty() ? name + " is empty; a number was expected, 1 for what the model was trained with" : "";
}

}  // namespace

Option vace_scale_option() {
  return {.name = kVaceScale,
          .help =
              "how much of what VACE makes is added to the transformer's tokens: a number, or one for each of its blocks, with commas "
              "between",
          .otherwise = std::string("1"),
          .elsewhere = "it is of Wan's VACE models, leave it out",
          .why_wrong = why_no_scale};
}

std::vector<double> vace_scales(const ModelOptions& options, int64_t num_blocks) {
  std::vector<double> scales;
  for (const auto& word : split_list(options.get<std::string>(kVaceScale))) scales.push_back(parse_number<double>(word).value_or(1));
  if (scales.size() == 1) scales.resize(static_cast<size_t>(num_blocks), scales.front());
  if (std::ssize(scales) != num_blocks)
    config_error("models", "vace_scale has {} numbers and VACE's module {} blocks; give one number for all, or one for each", scales.size(),
                 num_blocks);
  return scales;
}

bool scales_vace(const ModelOptions& options) {
  for (const auto& word : split_list(options.get<std::string>(kVaceScale))) {
    if (parse_number<double>(word) != 1.0) return true;
  }
  return false;
}

}  // namespace burnish::models::wan
