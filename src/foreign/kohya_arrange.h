#pragma once
#include "foreign/program.h"

namespace burnish::foreign::of_kohya {

/// Tells settings of sd-scripts, of kohya_ss and of LoRA_Easy_Training_Scripts by names that they alone have.
bool recognises(const Value& tree);
/// Tells settings that may be theirs by names that others have as well.
bool may_be(const Value& tree);
/// Puts them in the form that the table of sd-scripts is written for.
Arranged arrange(Value tree, const Open& open);

}  // namespace burnish::foreign::of_kohya
