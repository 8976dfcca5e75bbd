#pragma once
#include "train/samples/settings.h"

namespace burnish::train {

/// The choices of when results that depend on sample and timestep alone are computed ahead of training.
enum class AheadChoice { off, if_smaller, on, with_first_blocks };

/// Settings that say which samples each batch has, and what is drawn for it.
struct CourseSettings {
  int64_t batch_size = 1;         ///< visits that a process runs at once
  int64_t global_batch_size = 0;  ///< visits of a batch, which all processes share out; 0: those that they run at once
  int64_t num_repeats = 1, batches_per_step = 1;
  int64_t max_steps = 0, num_epochs = 1;  ///< max_steps 0 goes by epochs
  std::string replay = {};                ///< a file with recorded draws, or ""
  uint64_t seed = 0;
  double prior_loss_weight = 1;  ///< the factor on losses of the class set
  Portion portion = {};          ///< this process's portion of batches: processes that share tokens out count as one
  bool same_parts = false;       ///< whether all processes run as many parts of a batch, since they need each other for each
  int64_t visits_a_batch() const { return global_batch_size > 0 ? global_batch_size : batch_size * portion.num_processes; }
};

/// Settings that say what runs once, ahead and at every visit.
struct ScheduleSettings {
  bool everything_live = false;
  AheadChoice ahead = AheadChoice::if_smaller;
  /// Tells whether everything that can be computed ahead is computed so, whatever it takes.
  bool always_ahead() const { return ahead == AheadChoice::on || ahead == AheadChoice::with_first_blocks; }
};

}  // namespace burnish::train
