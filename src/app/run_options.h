#pragma once
#include <filesystem>

#include "train/options/train_options.h"

namespace burnish::app {

/// Reads the options that a run was started with, from its config.toml. `verb` is who asks. A data Error for what is no folder of a run.
train::TrainOptions run_options(const char* verb, const std::filesystem::path& run);

}  // namespace burnish::app
