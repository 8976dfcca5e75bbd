#pragma once
#include "train/samples/kept.h"

namespace burnish::train {

/// Reads `samples.json` of a cache, with which it can be trained from alone: its samples and where the values `kept` of each lie. Throws a
/// data Error when the cache holds others, is not complete, or is out of date: its metadata or a picture is still there and has changed
/// since.
Listed read_list(data::Cache& cache, const std::vector<std::string>& kept);

/// Digests of what options make of a run's samples (Input::option), by input.
std::map<std::string, std::string> digests_of_options(const Samples& samples);

/// The head of a list: all that it says beside its samples.
struct ListHead {
  std::vector<data::VisitRule> sets = {};  ///< how its datasets are visited
  std::string extra_inputs = {};           ///< those that it was made with; "" for none
};
/// Reads the head of the list of the cache in that folder, and no sample; an empty one where there is no list or read_list refuses it.
ListHead read_list_head(const std::filesystem::path& cache);

/// Writes the list of samples, `samples.json`, into the cache.
void save_list(data::Cache& cache, const Samples& samples, const Kept& kept);

}  // namespace burnish::train
