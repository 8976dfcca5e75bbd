#pragma once
#include "train/samples/kept.h"

namespace burnish::train {

/// Lists the files of a cache of DiffSynth-Studio: every .pth below `folder`, in the order of the processes and of their samples.
std::vector<std::filesystem::path> diffsynth_files(const std::filesystem::path& folder);

/// Puts the `carried` values of every file into `cache`, equal ones once; pictures, noise and flags stay behind. `theirs` says by our name
/// where the file's dictionaries have a value (Names::diffsynth_values). `columns` are metadata that the samples are to have, as far as the
/// files hold them. Files are read as data, nothing of them is run. Throws a data Error when a file is damaged or holds no such value.
Listed import_diffsynth(const std::filesystem::path& folder, const std::vector<std::string>& carried,
                        const std::map<std::string, models::DiffsynthValue>& theirs, const std::vector<std::string>& columns,
                        data::Cache& cache);

}  // namespace burnish::train
