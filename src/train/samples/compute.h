#pragma once
#include <functional>

#include "data/cache.h"
#include "models/family.h"

namespace burnish::train {

/// A stretch of work with models in memory that are not needed after it.
struct Work {
  std::vector<std::string> models;  ///< loaded for it, and dropped afterwards
  std::string name;                 ///< of the progress bar
  int64_t num_items = 0;
  std::function<bool(int64_t)> run = {};   ///< one item; false ends the work
  std::function<void()> interrupted = {};  ///< called after Ctrl-C, between two items; throws
};

/// Loads the models, runs the items in order without gradients, and drops the models again, also when an item throws.
void compute(models::Model& model, const Work& work);

/// What decides a result beside its inputs, for the description of a cache section: the family's units, and the settings and files of the
/// models that they run, with what is merged into them. The files of models are hashed for a cache on disk alone: in memory all results are
/// of one run.
nlohmann::json made_by(const models::Model& model, const std::vector<std::string>& models, data::Cache& cache);

/// A config Error unless a section was made with the same merged into its models as is merged into them now; of an imported one, unless
/// nothing is merged into what may have made it.
void check_merged(const models::Model& model, const data::CacheSection& section, data::Cache& cache);

}  // namespace burnish::train
