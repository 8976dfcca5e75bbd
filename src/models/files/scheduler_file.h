#pragma once
#include "diffusion/flow_sampler.h"
#include "diffusion/scheduler_values.h"
#include "models/files/files.h"

namespace burnish::models {

/// Reads `scheduler/scheduler_config.json` of the first pipeline folder that has one; nothing otherwise.
std::optional<diffusion::SchedulerValues> read_scheduler(const ModelFiles& files);

/// Reads from that file the configuration of a flow-matching sampler; `otherwise` without one.
diffusion::FlowSamplerConfig flow_config(const ModelFiles& files, const diffusion::FlowSamplerConfig& otherwise);

}  // namespace burnish::models
