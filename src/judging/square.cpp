#include "judging/square.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "models/text/resample.h"

namespace burnish::judging {

at::Tensor square_of(const at::Tensor& picture_HW3, const SquareRule& rule) {
  constexpr double kWhite = 255;
  const auto height = picture_HW3.size(0), width = picture_HW3.size(1), shorter = std::min(height, width);
  const auto scaled_height = rule.scaled * height / shorter, scaled_width = rule.scaled * width / shorter;
  auto levels = picture_HW3.permute({2, 0, 1}).to(at::kDouble);
  levels = models::text::resampled(levels, scaled_height, scaled_width, models::text::Filter::bicubic);
  levels = levels.narrow(1, (scaled_height - rule.side) / 2, rule.side).narrow(2, (scaled_width - rule.side) / 2, rule.side);
  auto of_colours = [](const std::array<double, 3>& numbers) { return at::tensor(numbers, at::kDouble).view({3, 1, 1}); };
  return ((levels / kWhite - of_colours(rule.colours.mean)) / of_colours(rule.colours.deviation)).to(at::kFloat);
}

}  // namespace burnish::judging
