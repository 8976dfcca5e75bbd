#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/clip_frames.h"

namespace burnish::data {

/// A stretch of time in a file, in seconds after its first frame is shown, or after its first sample where it has no frames.
struct SoundWindow {
  Fraction start = {0, 1};
  Fraction length = {0, 1};  ///< 0: up to the end
};

/// The name of the function of libburnish_clips.so that decodes the sound of the file of that name, or of the bytes of a file where there
/// are any. Samples lie where their times say: where a file has none there is silence. What is wrong is thrown as std::runtime_error.
constexpr const char* kDecodeSound = "burnish_decode_sound";
using DecodeSound = RawSound(const char* file, std::string_view bytes, const SoundWindow& window);

}  // namespace burnish::data
