#pragma once
#include <filesystem>
#include <optional>

#include "io/checkpoint_files.h"
#include "optim/ema.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"

namespace burnish::checkpoint {

/// Where a run stood: everything that cannot be recomputed from the options. Random draws are keyed, so no generator state is needed.
struct Progress {
  int64_t step = 0;         ///< optimizer steps done
  int64_t batch = 0;        ///< batches consumed
  std::string fingerprint;  ///< of the options that the state depends on
  optim::LossScale loss_scale = {};
};

/// What a saved state is of; `ema` may be null.
struct Trainee {
  optim::Optimizer& optimizer;
  optim::Ema* ema = nullptr;
};

/// A state as it is written: parameters, optimizer state, moving averages and progress. Its tensors are those of the trainee.
struct State {
  io::NamedTensors tensors;
  io::Metadata metadata;
};
State state_of(const Trainee& trainee, const Progress& progress);

/// Writes `folder`/state.safetensors, atomically.
void save_state(const std::filesystem::path& folder, const State& state);

/// The step at which a file's state was saved; nothing for a file that is no state.
std::optional<int64_t> step_of_state(const io::TensorSource& file);

/// Whether a state is there.
bool is_there(const std::filesystem::path& folder);

/// A data Error when no state is there.
void check_there(const std::filesystem::path& folder);

/// Where the saved run stood, without reading its tensors. A data Error when there is no state or it belongs to a run with other settings.
Progress read_progress(const std::filesystem::path& folder, const std::string& fingerprint);

/// Puts a saved state back. A data Error when there is none, when it is damaged, or when it belongs to a run with other settings or
/// other parameters; then nothing is changed.
Progress load_state(const std::filesystem::path& folder, const Trainee& trainee, const std::string& fingerprint);

}  // namespace burnish::checkpoint
