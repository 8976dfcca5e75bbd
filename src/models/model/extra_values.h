#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/model/extra_input.h"
#include "pipeline/unit.h"

namespace burnish::models {

/// Reads the value that units have of a further column which holds no pictures. `where` names the cell in messages ("row 3"). Throws a data
/// Error for a cell of another kind, and for a file that does not hold one tensor.
pipeline::Value extra_value(const ExtraInput& input, const nlohmann::json& cell, const std::string& where);

}  // namespace burnish::models
