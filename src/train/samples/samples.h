#pragma once
#include "models/family.h"
#include "train/samples/kept.h"

namespace burnish::train {

/// The samples of a run: pictures behind a metadata file, or the list of a cache that was made before.
struct Samples {
  std::vector<SampleInfo> list;                   ///< by rising row
  std::unique_ptr<data::Dataset> pictures;        ///< null when they come from a cache
  std::vector<data::VisitRule> sets{{}};          ///< the datasets that they are of
  int64_t num_variants = 1;                       ///< ways in which each picture is cut
  bool has_captions = true;                       ///< false for a cache that was made before captions were listed
  std::vector<data::MetadataOrigin> origins{{}};  ///< what each of them was read from; without a path when that is not known
  std::shared_ptr<const InputTable> inputs;       ///< what units may read of them

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

}  // namespace burnish::train
