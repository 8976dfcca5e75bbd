#pragma once
#include <compare>
#include <cstdint>

#include "base/extent.h"

namespace burnish::data {

/// Sides of a frame in pixels: what files hold, what is scaled and cut. What is trained or drawn has an Extent.
struct Size {
  int64_t height = 0, width = 0;
  auto operator<=>(const Size&) const = default;
};

/// The extent of a clip of so many frames of this size.
inline Extent extent_of(const Size& frame, int64_t frames = 1) { return {frames, frame.height, frame.width}; }
/// The size of each frame of a clip.
inline Size frame_of(const Extent& extent) { return {extent.height, extent.width}; }

}  // namespace burnish::data
