#pragma once
#include <cstdint>

namespace burnish::data {

/// A colour that is so opaque, laid over white.
inline uint8_t over_white(int color, int alpha) { return static_cast<uint8_t>((color * alpha + (255 - alpha) * 255 + 127) / 255); }

/// Lays pixels of RGBA over white, and takes how opaque they are.
inline void write_over_white(const uint8_t* from_HW4, int64_t num_pixels, uint8_t* to_HW3) {
  for (int64_t i = 0; i < num_pixels; ++i) {
    for (int64_t c = 0; c < 3; ++c) to_HW3[i * 3 + c] = over_white(from_HW4[i * 4 + c], from_HW4[i * 4 + 3]);
  }
}
inline void write_opacity(const uint8_t* from_HW4, int64_t num_pixels, uint8_t* to_HW) {
  for (int64_t i = 0; i < num_pixels; ++i) to_HW[i] = from_HW4[i * 4 + 3];
}

}  // namespace burnish::data
