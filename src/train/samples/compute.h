#pragma once
#include <functional>
#include <optional>

#include "data/cache.h"
#include "models/registry.h"

namespace burnish::train {

/// A stretch of work that needs models in memory which are not needed after it.
struct Work {
  std::vector<std::string> models;  ///< names of the models, loaded for it and dropped afterwards
  std::string name;                 ///< name of the progress bar
  int64_t num_items = 0;
  std::function<bool(int64_t)> run = {};     ///< does one item; false ends the work
  std::function<void()> interrupted = {};    ///< called after Ctrl-C, between two items; it throws
  std::optional<std::string> by_block = {};  ///< the one of the models that is read block by block; then all items are done
};

/// Loads the models, runs the items in order without gradients, and drops the models again, also when an item throws.
void compute(models::Model& model, const Work& work);

/// Describes for a cache section what decides a result beside its inputs: the version of the family's units, and the settings and files of
/// the models that they run, with what is merged into them. Model files are hashed for a cache on disk alone: in memory all results are of
/// one run.
nlohmann::json made_by(const models::Model& model, const std::vector<std::string>& models, data::Cache& cache);

/// Throws a config Error where a section was made with other LoRAs merged into its models than this run merges; for an imported section,
/// where the run merges any into models that may have made it.
void check_merged(const models::Model& model, const data::CacheSection& section, data::Cache& cache);

}  // namespace burnish::train
