#pragma once
#include <compare>
#include <cstdint>

#include "data/size.h"

namespace burnish::data {

/// What is cut out of a picture that was scaled to cover `size`: from which pixel on, and whether it is then mirrored left to right.
struct Crop {
  Size size;
  int64_t top = 0, left = 0;
  bool flip = false;
  auto operator<=>(const Crop&) const = default;
};

/// The size of a picture scaled to cover `target`; one side is the target's.
Size covering_size(Size picture, Size target);
Crop centre_crop(Size picture, Size target);

}  // namespace burnish::data
