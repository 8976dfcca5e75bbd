#include "data/crop.h"

#include <algorithm>
#include <cmath>

namespace burnish::data {

namespace {

/// Half to even, as Python rounds.
int64_t round_even(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

}  // namespace

Size covering_size(Size picture, Size target) {
  auto height = static_cast<double>(picture.height), width = static_cast<double>(picture.width);
  auto scale = std::max(static_cast<double>(target.height) / height, static_cast<double>(target.width) / width);
  return {std::max(target.height, round_even(height * scale)), std::max(target.width, round_even(width * scale))};
}

Crop centre_crop(Size picture, Size target) {
  auto scaled = covering_size(picture, target);
  auto middle = [](int64_t out, int64_t count) { return round_even(static_cast<double>(out - count) / 2.0); };
  return {target, middle(scaled.height, target.height), middle(scaled.width, target.width)};
}

}  // namespace burnish::data
