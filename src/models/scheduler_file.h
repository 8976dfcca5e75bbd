#pragma once
#include "diffusion/scheduler_values.h"
#include "models/files.h"

namespace burnish::models {

/// `scheduler/scheduler_config.json` of the first pipeline folder that has one; nothing otherwise.
std::optional<diffusion::SchedulerValues> read_scheduler(const ModelFiles& files);

}  // namespace burnish::models
