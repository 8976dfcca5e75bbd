#pragma once
#include <compare>
#include <cstdint>
#include <string>

namespace burnish {

/// Says how large what is trained or drawn is: a clip of so many frames, each of height × width pixels. A picture is a clip of one frame.
struct Extent {
  int64_t frames = 1, height = 0, width = 0;
  auto operator<=>(const Extent&) const = default;

  int64_t num_pixels() const { return frames * height * width; }
};

/// An extent as keys and files spell it, height before width: "512x768"; of several frames "49x512x768".
std::string spelled(const Extent& extent);
/// An extent as users are told of it, width before height: "768x512"; of several frames "768x512x49".
std::string text_of(const Extent& extent);

}  // namespace burnish
