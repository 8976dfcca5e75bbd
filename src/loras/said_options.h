#pragma once
#include <string>
#include <vector>

#include "models/model/options.h"

namespace burnish::loras {

/// Gives options of models the whole numbers that the metadata of a file with adapters says under their names, by which it was trained; not
/// those that are `given`. Returns a sentence for people about each that changes.
std::vector<std::string> take_said_options(const std::string& file, const std::vector<std::string>& given, models::OptionValues& own);

}  // namespace burnish::loras
