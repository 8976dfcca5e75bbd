#pragma once
#include <functional>
#include <string>

#include "train/subject/model_choice.h"

namespace burnish::train {

/// Puts a format in the place of weight_format auto: INT8 with products of codes where the device's are faster than those of numbers, or
/// where the run does not fit with numbers; otherwise the models that are named stay numbers. No format is taken that makes a step slower
/// where it is not needed. `numbers_fit` plans the run without it, and is asked only where that decides. Returns what became of it, in a
/// line; "" where the choice says a format.
std::string settle_format(ModelChoice& choice, c10::Device device, const std::function<bool()>& numbers_fit);

}  // namespace burnish::train
