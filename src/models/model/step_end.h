#pragma once
#include <string>

namespace burnish::models {

/// The name of a value that every step of a walk has beside the process's time: [B] fp32, the time at which the step ends. It is for units
/// that draw with models which are told where a step leads (flow maps: Boffi et al. 2024, arXiv 2406.07507); training has no such value.
inline const std::string kStepEnd = "time_after";

}  // namespace burnish::models
