#pragma once
#include "data/clip_window.h"

namespace burnish::data {

/// Returns the window of a clip beside that clip of which `window` is: of frames without times beside a clip with times, or the other way
/// round, the frames of the same numbers, as if those without times were shown at the rate that the rule asks for.
ClipWindow window_beside(const ClipWindow& window, const ClipRule& rule, bool has_times, bool beside_has_times);

}  // namespace burnish::data
