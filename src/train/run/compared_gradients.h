#pragma once
#include <algorithm>
#include <cmath>

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
  /// The length of what of its gradients lies across the others': it changes the adapter and teaches nothing that they teach.
  double stray() const { return length * std::sqrt(std::max(0.0, 1 - agreement * agreement)); }
};

/// The samples of a run, those first that pull elsewhere the most.
struct ComparedGradients {
  std::vector<ComparedGradient> samples;
  double usual = 0, usual_stray = 0;  ///< agreement and stray length in the middle of all samples

  /// Tells whether a sample pulls elsewhere by a third more than samples usually do.
  bool pulls_elsewhere(const ComparedGradient& sample) const { return sample.stray() > kFar * usual_stray; }

  static constexpr double kFar = 4.0 / 3;
};

/// Compares the gradients of all samples of a run, but for those of class sets: at the times at which held-out samples are judged, on the
/// model as it is before anything trains. Throws a config Error for a run from a cache alone, and a data Error for fewer than four samples.
ComparedGradients compare_gradients(const TrainOptions& options);

}  // namespace burnish::train
