#pragma once
#include <string>
#include <vector>

#include "foreign/table.h"

namespace burnish::foreign::of_onetrainer {

/// Lists the rows of how the pictures of a concept are changed.
std::vector<SettingRow> concept_rows();
/// Reads text.prompt_source: captions of a concept that come from one file, a line each, are one for all where that is a single line.
Outcome prompt_of_concept(const Value& value, const Settings& all);

}  // namespace burnish::foreign::of_onetrainer
