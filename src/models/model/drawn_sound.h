#pragma once
#include <string>

#include "base/text.h"
#include "models/model/model.h"

namespace burnish::models {

/// The names of values that units which decode clips write beside `image` where these sound: the sound [B, C, N] in [-1, 1], on a picture
/// without elements, and its samples a second, a number without dimensions.
inline const std::string kDrawnSound = "drawn_sound", kDrawnSoundRate = "drawn_sound_rate";

/// Tells whether what is drawn with these units sounds.
inline bool writes_sound(const pipeline::Units& decode) { return !decode.empty() && contains(decode.back().writes, kDrawnSound); }

}  // namespace burnish::models
