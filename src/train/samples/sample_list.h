#pragma once
#include "train/samples/kept.h"

namespace burnish::train {

/// Reads `samples.json` of a cache, with which it can be trained from alone: its samples and where the values `kept` of each lie. Throws a
/// data Error when the cache holds others, is not complete, or is out of date: its metadata or a picture is still there and has changed
/// since.
Listed read_list(data::Cache& cache, const std::vector<std::string>& kept);

/// Digests of what options make of the samples (Input::option), by input; of a run, and as the list of that cache has them.
std::map<std::string, std::string> digests_of_options(const Samples& samples);
std::map<std::string, std::string> listed_digests(const std::filesystem::path& cache);

/// Returns the extra_inputs that the cache in that folder was made with; "" where none were, and where there is no list.
std::string listed_extra_inputs(const std::filesystem::path& cache);

/// Returns how the datasets in that cache's list are visited; none when there is no such list.
std::vector<data::VisitRule> listed_sets(const std::filesystem::path& cache);

/// Writes the list of samples, `samples.json`, into the cache.
void save_list(data::Cache& cache, const Samples& samples, const Kept& kept);

}  // namespace burnish::train
