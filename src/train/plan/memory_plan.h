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

/// What a stretch of a run needs of the device's memory.
struct StageMemory {
  std::string name;  ///< "encode_prompt_t5", "step"
  memory::Profile profile;
  std::optional<int64_t> reserved = {};  ///< what the caching allocator of a GPU keeps for it
  int64_t num_host_bytes = 0;            ///< of main memory that what waits for the device takes

  int64_t num_bytes() const { return reserved.value_or(profile.peak.total()); }
};

/// A part of what a run takes, by name.
struct NamedBytes {
  std::string name;
  int64_t num_bytes = 0;
};
int64_t total(const std::vector<NamedBytes>& parts);

inline constexpr const char *kStepStage = "step", *kRunTensors = "the run's tensors";

/// What a process does in a step.
struct StepWork {
  double multiplications = 0;       ///< of products, convolutions and attention, for one part of a batch, forward and backward
  int64_t gradient_bytes = 0;       ///< that are summed over processes, in fp32
  int64_t late_gradient_bytes = 0;  ///< of them, of parts that run before the last: they come when its backward is over
  int64_t weight_bytes = 0;         ///< that train, as layers compute with them
  int64_t divided_bytes = 0;        ///< of frozen blocks that processes divide, gathered in forward and in backward
  int64_t num_blocks = 1;           ///< of them
  int64_t token_bytes = 0;          ///< that leave it for places that share tokens out, of one part of a batch, forward and backward
  int64_t num_exchanges = 0;        ///< in which they do
};

/// What could be held otherwise than it is, or not at all.
struct Movable {
  std::vector<std::string> storable = {};  ///< components that a step runs, do not train whole, and are held as parameters
  std::vector<std::string> encoders = {};  ///< large components that only run before the step, not on pictures, and are held as parameters
  int64_t num_blocks = 0;                  ///< of the denoiser, which can wait elsewhere
  bool from_disk = false;                  ///< whether they can wait in their file
  std::string in_the_way = {};             ///< a part of the denoiser that leaves memory before training where nothing of it trains
  std::string other_targets = {};          ///< lora_target_modules without that part's layers
};

/// What a run needs of memory and disks, from a dry run of it.
struct MemoryPlan {
  std::string device;
  std::vector<StageMemory> stages;    ///< in the order in which they run; the training step, and what is computed to save, come last
  int64_t library_bytes = 0;          ///< of the device's memory, which libraries take beside every stage
  std::vector<NamedBytes> host = {};  ///< of the host's memory at once, what runs on it with it
  std::vector<NamedBytes> disk = {};  ///< that the run writes
  int64_t mapped_bytes = 0;           ///< of weight files, which are mapped while they are read: the system's to keep or to drop
  int64_t activation_bytes = 0;       ///< that forward leaves for backward
  KeptForBackward kept = {};          ///< what blocks keep in the run that is planned
  StepWork work = {};
  Movable movable = {};

  const StageMemory& step() const;
  /// The one that needs most.
  const StageMemory& largest() const;
  /// Of the device, with its libraries; a CPU's memory is also what waits there.
  int64_t num_bytes(const StageMemory& stage) const;
  int64_t num_bytes() const { return num_bytes(largest()); }
  int64_t host_bytes() const { return total(host); }
};

/// Plans a run.
using Planner = std::function<MemoryPlan(const Settings&)>;

/// Memory that could not be had, which ended a run.
struct NoMemory {
  int64_t step = 0;         ///< in which it was missing, counted from 1
  std::string place;        ///< in the step
  int64_t saved_step = -1;  ///< of the state on disk; -1 for none
  int64_t host_bytes = 0;   ///< of main memory that the process ever had
};

/// The plan as tables for people, with a chart of the step.
std::string to_text(const MemoryPlan& plan);
/// The plan as JSON, bytes in whole numbers.
nlohmann::json to_json(const MemoryPlan& plan);

}  // namespace burnish::train
