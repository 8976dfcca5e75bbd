#pragma once
#include <map>

#include "base/text.h"
#include "config/command_line.h"
#include "config/settings.h"
#include "tests/allocations.h"
#include "tests/device.h"
#include "tests/scratch.h"
#include "train/options/fields.h"
#include "train/run/run.h"

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
  const auto golden = std::filesystem::path(BURNISH_SOURCE_DIR) / "tests/golden";
  const auto assets = std::filesystem::path(BURNISH_SOURCE_DIR) / "assets/tiny-flux";
  auto folder = model == "flux" ? "pipeline/model" : model + "_pipeline/model";
  const bool is_of_clips = model == "wan";
  std::vector<std::string> all{"--model", (golden / folder).string(), "--dataset_metadata_path",
                               (golden / (is_of_clips ? "wan_clips" : "pipeline/pictures") / "metadata.csv").string()};
  std::string rest = flags;
  if (is_of_clips) rest += " --num_frames 9";
  const bool has_tokenizer = std::filesystem::exists(golden / folder / "tokenizer") ||
                             std::filesystem::exists(golden / folder / "text_encoder" / "tokenizer.json");
  if (!has_tokenizer) rest += " --tokenizer_path " + (assets / "tokenizer").string();
  if (model == "flux") rest += " --tokenizer_2_path " + (assets / "tokenizer_2").string();
  if (rest.find("--height") == rest.npos) rest += model == "sd15" ? " --height 128 --width 192" : " --height 64 --width 64";
  rest += " --max_steps 2 --num_threads 1";
  for (const auto& word : split_list(rest, ' ')) all.push_back(word);
  return all;
}

/// What the step of a run is planned to take over what it takes by a counting allocator, less 1. The run keeps its cache in `scratch`. With
/// `--plan off` it makes values again that it keeps where its plan finds room for them.
inline double error_of_plan(train::TrainOptions options, const Scratch& scratch) {
  options.cache_path = (scratch / "cache").string();
  auto run = [&](const std::string& name) {
    auto own = options;
    own.output_path = (scratch / name).string();
    train::train(own);
  };
  run("first");  // after which the cache is there
  auto plan = train::plan_memory(options);
  Allocations allocations;
  run("second");
  return static_cast<double>(plan.num_bytes(plan.step())) / static_cast<double>(allocations.peak()) - 1;
}

}  // namespace burnish::test
