#pragma once
#include <filesystem>
#include <optional>

#include "io/checkpoint_files.h"
#include "optim/ema.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"

namespace burnish::checkpoint {

/// The position of a run: everything that cannot be recomputed from the options. Random draws are keyed, so no generator state is needed.
struct Progress {
  int64_t step = 0;         ///< optimizer steps done
  int64_t batch = 0;        ///< batches consumed
  std::string fingerprint;  ///< fingerprint of the options that the state depends on
  optim::LossScale loss_scale = {};
  std::string samples = {};  ///< what the samples were, of which the fingerprint has one hash: a list as that, to say what changed
};

/// The parts of a run that a state is saved of; all but the optimizer may be null.
struct Trainee {
  optim::Optimizer& optimizer;
  optim::Ema* ema = nullptr;
  optim::Ema* old_policy = nullptr;   ///< the average by which the run draws pictures that it learns from
  optim::StateList* drawn = nullptr;  ///< what it drew last, of whatever names and shapes
};

/// A state as it is written: parameters, optimizer state, moving averages and progress; of parameters that this process owns. Its tensors
/// are those of the trainee.
struct State {
  io::NamedTensors tensors;
  io::Metadata metadata;
};
State state_of(const Trainee& trainee, const Progress& progress);

/// Writes `folder`/state.safetensors, atomically.
void save_state(const std::filesystem::path& folder, const State& state);

/// Writes one of several files that make up a state, each with what a process owns: "state-step-12-00001-of-00004.safetensors". It counts
/// once all are there and `publish` was called.
void save_part(const std::filesystem::path& folder, const State& state, int64_t part, int64_t num_parts);
/// Makes the parts of a step the state that is there, atomically, by the index that lists shards ("state.safetensors.index.json"), and
/// removes what was there before.
void publish(const std::filesystem::path& folder, int64_t step, int64_t num_parts);

/// The step at which a file's state was saved; nothing for a file that is no state.
std::optional<int64_t> step_of_state(const io::TensorSource& file);

/// Tells whether a state is there.
bool is_there(const std::filesystem::path& folder);

/// Throws a data Error when no state is there.
void check_there(const std::filesystem::path& folder);

/// Reads where the saved run stood, without its tensors. A data Error when there is no state or it belongs to a run with other settings;
/// with what this run's samples are (Progress::samples) it says what of them is another.
Progress read_progress(const std::filesystem::path& folder, const std::string& fingerprint, const std::string& samples = "");

/// Puts a saved state back. A data Error when there is none, when it is damaged, or when it belongs to a run with other settings or
/// other parameters; then nothing is changed.
Progress load_state(const std::filesystem::path& folder, const Trainee& trainee, const std::string& fingerprint);

}  // namespace burnish::checkpoint
