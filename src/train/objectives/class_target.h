#pragma once
#include "train/objectives/passes.h"
#include "train/objectives/sample_loss.h"
#include "train/objectives/settings.h"

namespace burnish::train {

// Samples of a class set that are held to what the model before training predicts of them, in place of their pictures.

/// Settings of what samples of the class set are held to.
struct ClassTarget {
  bool is_model = false;      ///< whether it is the prediction of the model before training; else their own target
  bool has_own_rows = false;  ///< whether that model runs for them alone (run_for_class_set), so that its predictions have no other rows

  /// Returns the pass that they are held to where `is_model`.
  static Pass pass() { return {.before_training = true}; }
};
ClassTarget class_target_of(const models::OptionValues& own);

/// Returns the option of class targets.
std::vector<models::Option> class_target_options();
/// Refuses a class target without a class set.
void check_class_target(const ClassTarget& target, const RunForObjective& run);

/// Has the model before training run for samples of the class set alone, where nothing else is compared with it: what it predicts has a
/// row for each of them, and none at all in a batch without one. Processes then run it as often as their own batches need it.
pipeline::Units run_for_class_set(pipeline::Units units);

/// Computes what is compared where samples of the class set (1 in `of_class_set_B`) are held to `reference`, what that model predicts:
/// theirs is the prediction `plain`, without guidance. Other samples have `compared`.
ComparedTensors held_to_model(const ClassTarget& target, const ComparedTensors& compared, const at::Tensor& plain,
                              const at::Tensor& reference, const at::Tensor& of_class_set_B);

}  // namespace burnish::train
