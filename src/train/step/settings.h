#pragma once
#include <limits>

#include "dist/reduction.h"
#include "memory/recomputed_part.h"
#include "optim/groups.h"
#include "optim/optimizer.h"

namespace burnish::train {

/// The number that stands for all blocks that there are.
inline constexpr int64_t kAllBlocks = std::numeric_limits<int64_t>::max();

/// Settings that say what of a step waits elsewhere while it is not needed, and what is computed twice.
struct MemorySettings {
  int64_t interval = 1;              ///< where blocks are recomputed, one of so many
  int64_t recompute_every = 0;       ///< one of so many blocks is recomputed; 0: none
  int64_t activation_bytes = 0;      ///< bytes that forward may leave for backward, from which a plan decides KeptForBackward; 0: not said
  bool checkpoints_in_host = false;  ///< whether inputs of recomputed blocks wait in host memory
  bool updates_in_backward = false;
  bool optimizer_in_host = false;
  int64_t paged_blocks = 0;         ///< blocks of the denoiser that wait elsewhere, or kAllBlocks
  int64_t blocks_on_disk = 0;       ///< the blocks among them that wait in their file
  int64_t feed_forward_tokens = 0;  ///< of a sample, at once in feed-forward layers; 0: all
  bool uses_host() const { return checkpoints_in_host || optimizer_in_host || paged_blocks > 0; }
};

/// The values that blocks keep of forward for backward, as a plan decides it.
struct KeptForBackward {
  bool values = false;                   ///< whether values of nn::recomputed are kept, in blocks that `again` does not name
  memory::RecomputedByBlock again = {};  ///< choices by names as in "dit.transformer_blocks.3", for all blocks or none
};

/// Settings that say how processes that train together divide what they have, and sum what they find.
struct DivisionSettings {
  dist::ReductionOptions reduction = {};  ///< how gradients are summed
  int64_t zero_stage = 0;                 ///< stage of what else each process keeps a part of (train/step/ownership.h)
  int64_t row_size = 0;                   ///< number of processes that divide it among them (dist/mesh.h); 0: all
  int64_t num_places = 1;                 ///< number of neighbours that share out the tokens of their samples
  /// Tells whether each process keeps a part of the weights of the denoiser's blocks (memory::WeightGroup).
  bool divides_blocks() const { return zero_stage >= 3; }
  /// Returns the number of processes, of so many, that divide things among them.
  int64_t num_sharers(int64_t num_processes) const { return zero_stage == 0 ? 1 : row_size == 0 ? num_processes : row_size; }
};

/// Settings of an optimizer step.
struct StepSettings {
  double learning_rate = 0, max_grad_norm = 0, ema_decay = 0;
  optim::ScheduleOptions schedule = {};  ///< the schedule's max_steps is the course's
  double warmup_ratio = 0;               ///< warm-up as a share of those steps, in place of the schedule's; 0: not said
  optim::OptimizerOptions optimizer = {};
  optim::GroupOptions groups = {};
  bool scales_loss = false;
  bool draws_itself = false;  ///< whether it learns from pictures that an average of what trains draws (OwnDrawings)
  bool replays = false;       ///< whether forward and backward are recorded and replayed, where that can be
  MemorySettings memory = {};
  DivisionSettings division = {};
};

/// Settings that say when a run saves, beside its end; 0 is never.
struct SaveSettings {
  int64_t steps = 0;  ///< -1: ten times in a run, at least 250 steps apart, where nothing else says when
  int64_t epochs = 0;
  double minutes = 0;
  int64_t keep_last = 0;   ///< number of saves by step that are kept; 0 keeps all
  bool keep_best = false;  ///< whether the save with the lowest validation loss is kept as well
};

}  // namespace burnish::train
