#pragma once
#include <string>

namespace burnish::models {

/// The name of a value of the prompt, zeros [1, 1], which is ones under a negative prompt: of models that predict otherwise there.
inline const std::string kIsNegative = "is_negative";

}  // namespace burnish::models
