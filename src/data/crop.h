#pragma once
#include <compare>
#include <cstdint>

#include "data/alteration.h"
#include "data/size.h"

namespace burnish::data {

/// A window that is cut out of a picture which was scaled to cover `size`: its first pixel, whether it is mirrored left to right, and what
/// becomes of it then.
struct Crop {
  Size size;
  int64_t top = 0, left = 0;
  bool flip = false;
  Alteration alteration = {};
  auto operator<=>(const Crop&) const = default;
};

/// The size of a picture scaled to cover `target`; one side is the target's.
Size covering_size(Size picture, Size target);
Crop centre_crop(Size picture, Size target);

}  // namespace burnish::data
