#pragma once
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "config/command_line.h"
#include "config/settings.h"
#include "tests/device.h"
#include "tests/small_families.h"
#include "train/options/fields.h"

namespace burnish::test {

inline train::TrainOptions options_of(const std::vector<std::string>& arguments) {
  device();  // which decides what an option of auto finds
  train::TrainOptions options;
  config::Fields fields;
  train::fields(fields, options);
  config::read_command_line("train", "", arguments, fields);
  return options;
}

/// A run of one of the small models, two steps long; what `flags` say counts.
inline std::vector<std::string> small_run(const std::string& model, const std::string& flags) {
  const auto& family = small_family(model);
  auto all = family.model_words();
  for (const auto& word : family.data_words()) all.push_back(word);
  std::string rest = flags;
  const auto least = int64_t{64};
  if (rest.find("--height") == rest.npos)
    rest += fmt::format(" --height {} --width {}", std::max(least, family.height), std::max(least, family.width));
  rest += " --max_steps 2 --num_threads 1";
  for (const auto& word : split_list(rest, ' ')) all.push_back(word);
  return all;
}

}  // namespace burnish::test
