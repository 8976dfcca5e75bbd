#pragma once
#include <vector>

#include "pipeline/unit.h"

namespace burnish::pipeline {

/// The live units of a cut as a batch of visits runs them. Units that depend on no draw run sample by sample, so that a batch computes bit
/// for bit what a cache would hold; their results are joined along the first dimension, and all other units run on the batch. Gradients
/// are recorded from the first trained parameter on.
class Visit {
 public:
  /// `cut` with the draws and trained models that it was made for.
  Visit(const Cut& cut, const std::set<std::string>& draws, const std::set<std::string>& trained_models);

  /// Values of a sample that live units read, and that neither the cache nor a draw gives: "prompt", "image".
  const std::vector<std::string>& inputs() const { return inputs_; }

  /// Runs all live units. A sample's values are those that the cut carries and `inputs`; all values are where the models are.
  /// std::logic_error when samples have to be joined by a value that is no tensor.
  Values run(std::vector<Values> samples, const Values& draws) const;

 private:
  void run(const Units& units, Values& values) const;
  Units each_, batch_;
  std::vector<std::string> joined_, inputs_;
  std::set<std::string> with_gradient_;  ///< units whose results depend on a trained parameter
};

}  // namespace burnish::pipeline
