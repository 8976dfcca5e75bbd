#pragma once
#include "foreign/program.h"

namespace burnish::foreign::of_simpletuner {

/// Tells settings of SimpleTuner by their names, and lists of its datasets.
bool recognises(const Value& tree);
/// Puts them in the form that its table is written for.
Arranged arrange(Value tree, const Open& open);

}  // namespace burnish::foreign::of_simpletuner
