#pragma once
#include "train/options/train_options.h"

namespace burnish::train {

/// How a sample pulls at an adapter that has learned nothing yet, beside how the other samples do.
struct ComparedGradient {
  int64_t row = 0;
  std::string file, caption;
  /// The cosine between the gradient of its loss and the mean of the others' at the same time: 1 where it teaches what they teach, 0 where
  /// it teaches something else, below where it undoes it. The mean over several times.
  double agreement = 0;
  double length = 0;  ///< of its gradients, over that in the middle of the set
};

/// The samples of a run, those first that agree least with the others.
struct ComparedGradients {
  std::vector<ComparedGradient> samples;
  double usual = 0;   ///< the agreement in the middle of all samples
  double spread = 0;  ///< the deviation from it in the middle of all

  /// Tells whether the samples have anything in common.
  bool have_much_in_common() const { return usual > kLeastAgreement; }
  /// Tells whether a sample pulls elsewhere than the others do.
  bool pulls_elsewhere(const ComparedGradient& sample) const;

  static constexpr double kLeastAgreement = 0.02;
};

/// Compares the gradients of all samples of a run, but for those of class sets: at the times at which held-out samples are judged, on the
/// model as it is before anything trains. Throws a config Error for a run from a cache alone, and a data Error for fewer than four samples.
ComparedGradients compare_gradients(const TrainOptions& options);

}  // namespace burnish::train
