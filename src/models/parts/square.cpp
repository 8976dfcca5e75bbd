#include "models/parts/square.h"

#include <algorithm>

namespace burnish::models {

namespace {

/// Returns the levels of colours [3, H, W], 0 to 255.
at::Tensor levels_of(const at::Tensor& picture_HW3) { return picture_HW3.permute({2, 0, 1}).to(at::kDouble); }

}  // namespace

at::Tensor square_of(const at::Tensor& picture_HW3, const SquareRule& rule) {
  const auto height = picture_HW3.size(0), width = picture_HW3.size(1), shorter = std::min(height, width);
  const auto scaled_height = rule.scaled * height / shorter, scaled_width = rule.scaled * width / shorter;
  const auto levels = text::resampled(levels_of(picture_HW3), scaled_height, scaled_width, rule.filter);
  const auto middle = levels.narrow(1, (scaled_height - rule.side) / 2, rule.side).narrow(2, (scaled_width - rule.side) / 2, rule.side);
  return text::normalised(middle, rule.colours).to(at::kFloat);
}

at::Tensor squeezed(const at::Tensor& picture_HW3, const SquareRule& rule) {
  const auto scale = rule.is_rounded ? text::resampled : text::resampled_finely;
  return text::normalised(scale(levels_of(picture_HW3), rule.side, rule.side, rule.filter), rule.colours).to(at::kFloat);
}

}  // namespace burnish::models
