#pragma once
#include "train/samples/samples.h"

namespace burnish::train {

/// Reads `samples.json` of a cache, with which it can be trained from alone: its samples and where the values `kept` of each lie. A data
/// Error when the cache holds others, is not complete, or is out of date: when the metadata or a picture it was made from is still there
/// and is another now.
Listed read_list(data::Cache& cache, const std::vector<std::string>& kept);

/// Whether captions are drawn anew at each visit of the samples in the list of that cache; false when there is no such list.
bool listed_captions_vary(const std::filesystem::path& cache);

/// Writes that list into the cache.
void save_list(data::Cache& cache, const Samples& samples, const Kept& kept);

}  // namespace burnish::train
