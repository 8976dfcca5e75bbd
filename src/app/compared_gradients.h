#pragma once
#include "train/run/compared_gradients.h"

namespace burnish::app {

/// Says which samples pull elsewhere than the others, the furthest first and at most `most` of them.
std::string text_of(const train::ComparedGradients& compared, int64_t most);
/// Says it of all samples as JSON: {"usual", "samples": [{"row", "file", "caption", "agreement", "length", "stray", "pulls_elsewhere"}]},
/// those first that pull elsewhere the most. "stray" is over what is usual.
std::string json_of(const train::ComparedGradients& compared);

}  // namespace burnish::app
