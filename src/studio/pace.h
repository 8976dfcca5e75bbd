#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "studio/runs.h"
#include "studio/workspace.h"

namespace burnish::studio {

/// Returns how long steps of a run take that is only planned: {"seconds_a_step", "run"}, by the newest run of this workspace that trains
/// the same model in the same precision on the same kind of device, in the ratio of their multiplications; null where there is none.
/// `values` are those of the settings that are planned; `form` reads those of others (Options::form).
nlohmann::json pace_of(const nlohmann::json& plan, const nlohmann::json& values, const Workspace& workspace, Runs& runs,
                       const std::function<nlohmann::json(const std::string&)>& form);

}  // namespace burnish::studio
