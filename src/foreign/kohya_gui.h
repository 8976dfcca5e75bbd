#pragma once
#include "foreign/settings.h"

namespace burnish::foreign {

/// Tells whether these are the settings that kohya_ss saves, the window over sd-scripts.
bool is_kohya_gui(const Value& tree);

/// The options of sd-scripts that it would start training with: what its settings call otherwise, what they say of several options
/// together, and none that it leaves unsaid, which is what 0, false and "" mean in most of them.
Value options_of_kohya_gui(const Value& tree);

}  // namespace burnish::foreign
