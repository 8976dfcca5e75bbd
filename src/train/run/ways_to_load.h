#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "train/subject/attached.h"

namespace burnish::train {

/// Says in a few lines how the files of a save are used: by `burnish sample`, and in the programs that read such files. `folder` is that of
/// the run, which the files lie in under their names.
std::vector<std::string> ways_to_load(const std::vector<TrainedFile>& files, const std::filesystem::path& folder);

}  // namespace burnish::train
