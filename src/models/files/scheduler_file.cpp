#include "models/files/scheduler_file.h"

#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/json.h"

namespace burnish::models {

std::optional<diffusion::SchedulerValues> read_scheduler(const ModelFiles& files) {
  auto path = files.in_pipeline("scheduler/scheduler_config.json");
  if (!path) return std::nullopt;
  auto json = io::read_json(*path);
  if (!json.is_object()) data_error("models", "{} must hold an object, not {}", path->string(), json.type_name());
  diffusion::SchedulerValues values;
  for (const auto& [key, value] : json.items()) {
    if (value.is_boolean()) values[key] = value.get<bool>();
    else if (value.is_number()) values[key] = value.get<double>();
    else if (value.is_string()) values[key] = value.get<std::string>();
    else if (!value.is_null()) values[key] = value.dump();
  }
  return values;
}

diffusion::FlowSamplerConfig flow_config(const ModelFiles& files, const diffusion::FlowSamplerConfig& otherwise) {
  auto values = read_scheduler(files);
  return values ? diffusion::flow_sampler_config(*values) : otherwise;
}

}  // namespace burnish::models
