#pragma once
#include "train/run/compared_captions.h"

namespace burnish::app {

/// Says which samples' captions say little of their pictures, the least first and at most `most` of them; or that the model sees no
/// difference between captions.
std::string text_of(const train::ComparedCaptions& compared, int64_t most);
/// Says it of all samples as JSON: {"usual", "tells_apart", "samples": [{"row", "file", "caption", "difference", "says_little"}]}, those
/// first of which their caption says least. A difference is the logarithm of the loss under the own caption over that under others.
std::string json_of(const train::ComparedCaptions& compared);

}  // namespace burnish::app
