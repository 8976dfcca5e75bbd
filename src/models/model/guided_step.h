#pragma once
#include <string>

namespace burnish::models {

/// The name of a value that every step of a walk has: a number without dimensions, 1 where a prompt guides the walk. It is for units that
/// draw with models which something else guides too; training has no such value.
inline const std::string kIsGuided = "is_guided";

}  // namespace burnish::models
