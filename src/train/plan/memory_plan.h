#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "memory/profile.h"
#include "train/step/settings.h"

namespace burnish::train {

struct Settings;

/// The memory that a stretch of a run needs of the device.
struct StageMemory {
  std::string name;  ///< "encode_prompt_t5", "step"
  memory::Profile profile;
  std::optional<int64_t> reserved = {};  ///< bytes that the caching allocator of a GPU keeps for it
  int64_t num_host_bytes = 0;            ///< bytes of main memory that tensors waiting for the device take

  int64_t num_bytes() const { return reserved.value_or(profile.peak.total()); }
};

/// A named part of the bytes that a run takes.
struct NamedBytes {
  std::string name;
  int64_t num_bytes = 0;
};
int64_t total(const std::vector<NamedBytes>& parts);

inline constexpr const char *kStepStage = "step", *kRunTensors = "the run's tensors";

/// Says how long a run is.
struct RunLength {
  int64_t num_steps = 0, batches_a_step = 1;
  int64_t num_samples = 0;
  double num_epochs = 0;
};

/// The work that a process does in a step.
struct StepWork {
  double multiplications = 0;       ///< multiplications of products, convolutions and attention, in a part of a batch, forward and backward
  int64_t gradient_bytes = 0;       ///< bytes of gradients that are summed over processes, in fp32
  int64_t late_gradient_bytes = 0;  ///< bytes among these of parts that run before the last: they come when its backward is over
  int64_t weight_bytes = 0;         ///< bytes of weights that train, as layers compute with them
  int64_t divided_bytes = 0;        ///< bytes of frozen blocks that processes divide, gathered in forward and in backward
  int64_t num_blocks = 1;           ///< number of these blocks
  int64_t token_bytes = 0;          ///< bytes that leave it for places that share tokens out, for one part of a batch, forward and backward
  int64_t num_exchanges = 0;        ///< exchanges in which token_bytes leave
  RunLength length = {};
};

/// The parts of a model that could be held otherwise than they are, or not at all.
struct Movable {
  std::vector<std::string> storable = {};  ///< components that a step runs, do not train whole, and are held as parameters
  std::vector<std::string> encoders = {};  ///< large components that only run before the step, not on pictures, and are held as parameters
  int64_t num_blocks = 0;                  ///< blocks of the denoiser, which can wait elsewhere
  bool from_disk = false;                  ///< whether these blocks can wait in their file
  std::string in_the_way = {};             ///< a part of the denoiser that leaves memory before training where nothing of it trains
  std::string other_targets = {};          ///< lora_target_modules without the layers of the part in_the_way
};

/// A plan of the memory and the disk space that a run needs, from a dry run of it.
struct MemoryPlan {
  std::string device;
  std::vector<StageMemory> stages;    ///< stages in the order in which they run; the training step, and what is computed to save, come last
  int64_t library_bytes = 0;          ///< bytes of the device's memory that libraries take beside every stage
  std::vector<NamedBytes> host = {};  ///< bytes of the host's memory at once; what runs on the host is in it
  std::vector<NamedBytes> disk = {};  ///< bytes that the run writes
  int64_t mapped_bytes = 0;           ///< bytes of weight files, which are mapped while they are read: the system keeps or drops them
  int64_t activation_bytes = 0;       ///< bytes that forward leaves for backward
  KeptForBackward kept = {};          ///< values that blocks keep in the run that is planned
  StepWork work = {};
  Movable movable = {};

  const StageMemory& step() const;
  /// Returns the stage that needs most.
  const StageMemory& largest() const;
  /// Counts the bytes of a stage on the device, with its libraries; a CPU's memory also holds what waits there.
  int64_t num_bytes(const StageMemory& stage) const;
  int64_t num_bytes() const { return num_bytes(largest()); }
  int64_t host_bytes() const { return total(host); }
};

/// Plans a run.
using Planner = std::function<MemoryPlan(const Settings&)>;

/// Memory that could not be had, which ended a run.
struct NoMemory {
  int64_t step = 0;         ///< the step in which it was missing, counted from 1
  std::string place;        ///< what went on in the step (Trainee::place)
  int64_t saved_step = -1;  ///< step of the state on disk; -1 for none
  int64_t host_bytes = 0;   ///< the most bytes of main memory that the process ever had
};

/// Writes the plan as tables for people, with a chart of the step.
std::string to_text(const MemoryPlan& plan);
/// Writes the plan as JSON, bytes in whole numbers.
nlohmann::json to_json(const MemoryPlan& plan);

}  // namespace burnish::train
