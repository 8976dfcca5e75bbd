#pragma once
#include "models/registry.h"
#include "train/samples/kept.h"

namespace burnish::train {

/// The samples of a run: pictures behind a metadata file, or the list of a cache that was made before.
struct Samples {
  std::vector<SampleInfo> list;                   ///< samples by rising row
  std::unique_ptr<data::Dataset> pictures;        ///< null when they come from a cache
  std::vector<data::VisitRule> sets{{}};          ///< the datasets that the samples belong to
  int64_t num_variants = 1;                       ///< ways in which each picture is cut
  bool has_captions = true;                       ///< false for a cache that was made before captions were listed
  std::vector<data::MetadataOrigin> origins{{}};  ///< the metadata that each dataset was read from; without a path when that is not known
  Columns columns;                                ///< the columns that the run reads of the samples
  std::shared_ptr<const InputTable> inputs;       ///< the values that units may read of the samples

  /// Returns the sample of a row; a data Error when there is none.
  const SampleInfo& at(int64_t row) const;
  /// Returns the sample as units are to see it.
  View view(const Pick& pick) const {
    return {&at(pick.row), pictures.get(), pick.variant, pick.empty_caption, {}, {}, pick.caption, &columns};
  }
};

/// Samples with the results that a cache already keeps of them: none where they are pictures.
struct Listed {
  Samples samples;
  Kept kept;
};

}  // namespace burnish::train
