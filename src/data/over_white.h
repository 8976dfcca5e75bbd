#pragma once
#include <cstdint>

namespace burnish::data {

/// A colour that is so opaque, laid over white.
inline uint8_t over_white(int color, int alpha) { return static_cast<uint8_t>((color * alpha + (255 - alpha) * 255 + 127) / 255); }

}  // namespace burnish::data
