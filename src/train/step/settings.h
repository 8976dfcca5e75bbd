#pragma once
#include <limits>

#include "dist/reduction.h"
#include "memory/again.h"
#include "optim/groups.h"
#include "optim/optimizer.h"

namespace burnish::train {

/// As many blocks as there are.
inline constexpr int64_t kAllBlocks = std::numeric_limits<int64_t>::max();

/// What of a step waits where while it is not needed, and what is computed twice.
struct MemorySettings {
  int64_t recompute_every = 0;       ///< of so many blocks one is recomputed; 0: none
  int64_t activation_bytes = 0;      ///< that forward may leave for backward, by which a plan decides KeptForBackward; 0: not said
  bool checkpoints_in_host = false;  ///< its inputs wait in host memory
  bool updates_in_backward = false;
  bool optimizer_in_host = false;
  int64_t paged_blocks = 0;    ///< of the denoiser, or kAllBlocks
  int64_t blocks_on_disk = 0;  ///< of those, that wait in their file
  bool uses_host() const { return checkpoints_in_host || optimizer_in_host || paged_blocks > 0; }
};

/// What blocks keep of forward for backward, as a plan decides it.
struct KeptForBackward {
  bool values = false;              ///< those of nn::remade, of blocks that `again` does not name
  memory::AgainByBlock again = {};  ///< by names as in "dit.transformer_blocks.3", for all blocks or none
};

/// How processes that train together divide what they have, and sum what they find.
struct DivisionSettings {
  dist::ReductionOptions reduction = {};  ///< of gradients
  int64_t zero_stage = 0;                 ///< what of the rest each process keeps a part of (train/step/ownership.h)
  int64_t row_size = 0;                   ///< of the processes that divide it among them (dist/mesh.h); 0: all
  int64_t num_places = 1;                 ///< so many neighbours share out the tokens of the same samples
  /// Of the weights of the denoiser's blocks each process keeps a part (memory::Sharers).
  bool divides_blocks() const { return zero_stage >= 3; }
  /// Among how many of so many processes things are divided.
  int64_t num_sharers(int64_t num_processes) const { return zero_stage == 0 ? 1 : row_size == 0 ? num_processes : row_size; }
};

/// An optimizer step.
struct StepSettings {
  double learning_rate = 0, max_grad_norm = 0, ema_decay = 0;
  optim::ScheduleOptions schedule = {};  ///< its max_steps is the course's
  optim::OptimizerOptions optimizer = {};
  optim::GroupOptions groups = {};
  bool scales_loss = false;
  bool replays = false;  ///< forward and backward are recorded and replayed, where that can be
  MemorySettings memory = {};
  DivisionSettings division = {};
};

/// When a run saves, beside its end; 0 is never.
struct SaveSettings {
  int64_t steps = 0;  ///< -1: ten times in a run, at least 250 steps apart, where nothing else says when
  int64_t epochs = 0;
  double minutes = 0;
  int64_t keep_last = 0;   ///< of the saves by step; 0 keeps all
  bool keep_best = false;  ///< also the one with the lowest validation loss
};

}  // namespace burnish::train
