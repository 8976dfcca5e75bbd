#pragma once
#include <string>

#include "data/dataset.h"

namespace burnish::app {

/// {"pictures": [{"file", "width", "height", "cuts": [{"width", "height", "frames", "window": [left, top, width, height],
/// "is_scaled_up"}]}], "unusable": [{"row", "reason"}]}: of each picture the sizes that it is trained at, and what is cut out of it for
/// each, in its own pixels.
std::string cuts_as_json(const data::Dataset& dataset);

}  // namespace burnish::app
