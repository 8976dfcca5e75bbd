#pragma once
#include "foreign/table.h"

namespace burnish::foreign::of_ai_toolkit {

/// Tells settings of MiniMax-H3.
bool is_h3(const Settings& all);

/// The rows of its files and layers.
Table h3_rows();

}  // namespace burnish::foreign::of_ai_toolkit
