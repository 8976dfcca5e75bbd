#pragma once
#include "foreign/program.h"

namespace burnish::foreign::of_ai_toolkit {

/// Tells settings of ai-toolkit by their names.
bool recognises(const Value& tree);
/// Puts them in the form that its table is written for: that of its first process, whose datasets are one.
Arranged arrange(Value tree, const Open& open);

}  // namespace burnish::foreign::of_ai_toolkit
