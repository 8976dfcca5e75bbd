#pragma once
#include "models/registry.h"
#include "train/samples/kept.h"
#include "train/samples/settings.h"

namespace burnish::train {

/// The columns that an objective asks of samples, and its check of them.
struct SampleNeeds {
  std::vector<std::string> columns = {};                          ///< metadata columns that it reads of every sample
  std::function<void(const Sample&)> check = [](const auto&) {};  ///< throws a data Error for a sample that it cannot use
};

/// Tells whether captions are drawn anew at each visit, by the options or by the list of the cache that is trained from.
bool captions_vary(const DataSettings& settings);
/// Tells whether samples of a dataset are seen at a strength of what is learned other than 1, by the same.
bool strengths_vary(const DataSettings& settings);

/// Looks at every picture (where none are named, there is one sample of the given size without its picture), or reads a cache's list and
/// compares it with what `schedule` reads; imports another program's cache into ours. Data Errors for whatever the objective or the model
/// cannot use.
Listed open_samples(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs, const pipeline::Schedule& schedule,
                    data::Cache& cache);

/// Throws a data Error when kept values do not have the sizes that the denoiser takes (models::Names::shapes).
void check_shapes(const Listed& listed, const std::map<std::string, std::vector<int64_t>>& expected, const std::vector<std::string>& names);

/// Opens the held-out samples, or nothing when none are asked for.
std::optional<Samples> open_held_out(const DataSettings& settings, const models::Model& model, const SampleNeeds& needs);

/// Opens the cache that results are kept in: in memory, a folder that may be there already, or the one that the samples come from.
std::unique_ptr<data::Cache> open_cache(const DataSettings& settings);

}  // namespace burnish::train
