#include "judging/square.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

namespace burnish::judging {

namespace {

/// Returns the levels of colours [3, H, W], 0 to 255.
at::Tensor levels_of(const at::Tensor& picture_HW3) { return picture_HW3.permute({2, 0, 1}).to(at::kDouble); }

at::Tensor normalised(const at::Tensor& levels_3SS, const models::text::PixelRule& colours) {
  constexpr double kWhite = 255;
  auto of_colours = [](const std::array<double, 3>& numbers) { return at::tensor(numbers, at::kDouble).view({3, 1, 1}); };
  return ((levels_3SS / kWhite - of_colours(colours.mean)) / of_colours(colours.deviation)).to(at::kFloat);
}

}  // namespace

at::Tensor square_of(const at::Tensor& picture_HW3, const SquareRule& rule) {
  const auto height = picture_HW3.size(0), width = picture_HW3.size(1), shorter = std::min(height, width);
  const auto scaled_height = rule.scaled * height / shorter, scaled_width = rule.scaled * width / shorter;
  const auto levels = models::text::resampled(levels_of(picture_HW3), scaled_height, scaled_width, rule.filter);
  return normalised(levels.narrow(1, (scaled_height - rule.side) / 2, rule.side).narrow(2, (scaled_width - rule.side) / 2, rule.side),
                    rule.colours);
}

at::Tensor squeezed(const at::Tensor& picture_HW3, const SquareRule& rule) {
  const auto scale = rule.is_rounded ? models::text::resampled : models::text::resampled_finely;
  return normalised(scale(levels_of(picture_HW3), rule.side, rule.side, rule.filter), rule.colours);
}

}  // namespace burnish::judging
