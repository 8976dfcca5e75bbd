#pragma once
#include <compare>
#include <cstdint>

namespace burnish {

/// How large what is trained or drawn is: a clip of so many frames, each of height × width pixels. A picture is a clip of one frame.
struct Extent {
  int64_t frames = 1, height = 0, width = 0;
  auto operator<=>(const Extent&) const = default;
};

}  // namespace burnish
