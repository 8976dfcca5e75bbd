#pragma once
#include "foreign/program.h"

namespace burnish::foreign::of_onetrainer {

/// Tells settings of OneTrainer by their names.
bool recognises(const Value& tree);
/// Puts them in the form that its table is written for, with the concepts and samples that have files of their own.
Arranged arrange(Value tree, const Open& open);

}  // namespace burnish::foreign::of_onetrainer
