#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "memory/profile.h"

namespace burnish::train {

/// What a stretch of a run needs of the device's memory.
struct StageMemory {
  std::string name;  ///< "encode_prompt_t5", "step"
  memory::Profile profile;
  int64_t num_host_bytes = 0;  ///< of main memory that what waits for the device takes
};

/// What a run needs of its device's memory, from a dry run of it.
struct MemoryPlan {
  std::string device;
  std::vector<StageMemory> stages;    ///< in the order in which they run; the last is the training step
  std::vector<std::string> storable;  ///< components that a step runs, do not train whole, and are held as parameters
  int64_t num_pageable_blocks = 0;    ///< of the denoiser, unless it trains whole

  const StageMemory& step() const { return stages.back(); }
  /// The one that needs most.
  const StageMemory& largest() const;
  /// Of the device; a CPU's memory is also what waits there.
  int64_t num_bytes(const StageMemory& stage) const;
  int64_t num_bytes() const { return num_bytes(largest()); }
};

/// The plan as a table for people, with a chart of the step.
std::string to_text(const MemoryPlan& plan);
/// The plan as JSON, bytes in whole numbers.
nlohmann::json to_json(const MemoryPlan& plan);

}  // namespace burnish::train
