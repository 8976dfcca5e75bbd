#pragma once
#include "train/samples/samples.h"

namespace burnish::train {

/// Lists the files of a cache of DiffSynth-Studio: every .pth below `folder`, in the order of the processes and of their samples.
std::vector<std::filesystem::path> diffsynth_files(const std::filesystem::path& folder);

/// Puts the `carried` values of every file into `cache`, equal ones once; pictures, noise and flags stay behind. `their_names` gives by our
/// name the name in the file's dictionaries (Names::diffsynth_values). `columns` are metadata that the samples are to have, as far as the
/// files hold them. Files are read as data, nothing of them is run. Throws a data Error when a file is damaged or holds no such value.
Listed import_diffsynth(const std::filesystem::path& folder, const std::vector<std::string>& carried,
                        const std::map<std::string, std::string>& their_names, const std::vector<std::string>& columns, data::Cache& cache);

}  // namespace burnish::train
