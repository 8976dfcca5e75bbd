#pragma once
#include "models/family.h"
#include "train/kept.h"
#include "train/objective.h"

namespace burnish::train {

/// The samples of a run: pictures behind a metadata file, or the list of a cache that was made before.
struct Samples {
  std::vector<SampleInfo> list;                   ///< by rising row
  std::unique_ptr<data::Dataset> pictures;        ///< null when they come from a cache
  std::vector<data::VisitRule> sets{{}};          ///< the datasets that they are of
  int64_t num_variants = 1;                       ///< ways in which each picture is cut
  bool has_captions = true;                       ///< false for a cache that was made before captions were listed
  std::vector<data::MetadataOrigin> origins{{}};  ///< what each of them was read from; without a path when that is not known

  /// A data Error for a row that is not among them.
  const SampleInfo& at(int64_t row) const;
  /// The sample as units are to see it.
  View view(const Pick& pick) const { return {&at(pick.row), pictures.get(), pick.variant, pick.empty_caption, {}, {}, pick.caption}; }
};

/// Samples with what a cache already keeps of them, which is nothing where they are pictures.
struct Listed {
  Samples samples;
  Kept kept;
};

/// Whether captions are drawn anew at each visit, by the options or by the list of the cache that is trained from.
bool captions_vary(const DataSettings& settings);

/// Looks at every picture (where none are named, there is one sample of the given size without its picture), or reads a cache's list and
/// compares it with what `schedule` reads; imports another program's cache into ours. Data Errors for whatever the objective or the model
/// cannot use.
Listed open_samples(const DataSettings& settings, const models::Model& model, const Objective& objective,
                    const pipeline::Schedule& schedule, data::Cache& cache);

/// A data Error when kept values do not have the sizes that the denoiser takes (models::Names::shapes).
void check_shapes(const Listed& listed, const std::map<std::string, std::vector<int64_t>>& expected, const std::vector<std::string>& names);

/// The held-out samples, or nothing when none are asked for.
std::optional<Samples> open_held_out(const DataSettings& settings, const models::Model& model, const Objective& objective);

/// The cache that results are kept in: in memory, a folder that may be there already, or the one that the samples come from.
std::unique_ptr<data::Cache> open_cache(const DataSettings& settings);

}  // namespace burnish::train
