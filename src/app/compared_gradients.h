#pragma once
#include "train/run/compared_gradients.h"

namespace burnish::app {

/// Says which samples pull elsewhere than the others, the furthest first and at most `most` of them; or that the samples have nothing in
/// common.
std::string text_of(const train::ComparedGradients& compared, int64_t most);
/// Says it of all samples as JSON: {"usual", "spread", "have_much_in_common", "samples": [{"row", "file", "caption", "agreement", "length",
/// "pulls_elsewhere"}]}, those first that agree least.
std::string json_of(const train::ComparedGradients& compared);

}  // namespace burnish::app
