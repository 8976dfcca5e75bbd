#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace burnish::train {

class InputTable;

/// A sample of a run: a row, and what the run's model makes of its sizes.
struct Sample {
  int64_t number = 0;  ///< number of its row
  Extent extent = {};  ///< the extent that it is trained at
  data::Row row = {};  ///< from a cache's list as far as that has it; files have whole paths, and none is there where that is not known
  std::vector<int64_t> latent_shape = {};  ///< shape of the latents without the batch: [C, h, w]
  /// The extents at which the denoiser sees pictures that have sizes of their own, by column; a sound among references is as many frames of
  /// no height as it has samples (data/found_references.h).
  std::map<std::string, std::vector<Extent>> picture_extents = {};
  /// The shapes of further streams' latents, by stream; of a stream that the sample lacks they are without elements (LatentSpace::Stream).
  std::map<std::string, std::vector<int64_t>> further_latents = {};
  double frame_rate = 0;  ///< frames a second of a clip, where the model reads them (Column::RateUse); 0: the model's
};

/// Returns the shape of a stream's latents of a sample, without the batch.
const std::vector<int64_t>& shape_of(const Sample& sample, const std::string& stream);
/// Tells whether a sample's row has something in a further column: a picture, or a cell that is not empty.
bool has_column(const Sample& sample, const std::string& column);

/// The row of what is no sample's: the empty caption alone.
inline constexpr int64_t kNoRow = -1;

/// The variant and the caption that a visit takes of a sample.
struct Pick {
  int64_t row = 0;
  int64_t variant = 0;                      ///< number of the way in which the picture is cut
  bool empty_caption = false;               ///< whether the empty caption stands in place of the sample's
  std::optional<std::string> caption = {};  ///< the caption that was drawn, where captions vary
};

/// The samples of a run: pictures behind a metadata file, or the list of a cache that was made before.
struct Samples {
  std::vector<Sample> list;                       ///< samples by rising row
  std::unique_ptr<data::Dataset> pictures;        ///< null when they come from a cache
  std::vector<data::VisitRule> sets{{}};          ///< the datasets that the samples belong to
  int64_t num_variants = 1;                       ///< ways in which each picture is cut
  bool has_captions = true;                       ///< false for a cache that was made before captions were listed
  std::vector<data::MetadataOrigin> origins{{}};  ///< the metadata that each dataset was read from; without a path when that is not known
  Columns columns;                                ///< the columns that the run reads of the samples
  std::vector<std::string> extra_inputs;          ///< names of all that its model reads beside target and captions
  std::shared_ptr<const InputTable> inputs;       ///< the values that units may read of the samples

  /// Returns the sample of a row; a data Error when there is none.
  const Sample& at(int64_t row) const;
  /// Returns the rule by which the dataset of a sample is visited.
  const data::VisitRule& set_of(const Sample& sample) const { return sets.at(sample.row.subset); }
  /// Returns the caption that a pick has, whether or not the empty one takes its place; "" for one that is no sample's.
  std::string caption_of(const Pick& pick) const;
};

}  // namespace burnish::train
