#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// How well a model that has not trained foresees a sample under its own caption, and under captions of other samples.
struct ComparedCaption {
  int64_t row = 0;
  std::string file, caption;
  double own = 0, others = 0;  ///< means of the logarithms of its losses, at the same times and noise
  double difference() const { return own - others; }
};

/// The samples of a run, those first of which the own caption says least.
struct ComparedCaptions {
  std::vector<ComparedCaption> samples;
  double usual = 0;  ///< the difference in the middle of all samples

  /// Tells whether the model sees at all which caption is a picture's.
  bool tells_apart() const { return usual < -kLeastDifference; }
  /// Tells whether a caption says less than half of what captions usually say here.
  bool says_little(const ComparedCaption& sample) const { return tells_apart() && sample.difference() > usual / 2; }

  static constexpr double kLeastDifference = 1e-3;
};

inline constexpr int64_t kMostComparedCaptions = 16;

/// Compares the caption of each sample of a run, but for those of class sets, with up to `num_others` other captions of its samples: by the
/// losses that held-out samples are judged by, of the model as it is before anything trains. Throws a config Error for a run from a cache
/// alone, and a data Error where fewer than three captions differ.
ComparedCaptions compare_captions(const TrainOptions& options, int64_t num_others);

}  // namespace burnish::train
