#include "masking/mask.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_upsample_bilinear2d_aa.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/replication_pad2d.h>
#include <ATen/ops/sigmoid.h>

namespace burnish::masking {

namespace {

/// The largest of the numbers up to `reach` places away along rows and columns.
at::Tensor grown(const at::Tensor& x, int64_t reach) {
  const auto window = 2 * reach + 1;
  return at::max_pool2d(at::max_pool2d(x, {1, window}, {1, 1}, {0, reach}), {window, 1}, {1, 1}, {reach, 0});
}

}  // namespace

at::Tensor mask_of(const at::Tensor& scores_PSS, const data::Size& size, const MaskRule& rule) {
  auto x = at::sigmoid(scores_PSS).mean(0, /*keepdim=*/true).unsqueeze(0);
  const auto reach = rule.smooth_pixels, window = 2 * reach + 1;
  if (reach > 0) x = at::avg_pool2d(at::replication_pad2d(x, {reach, reach, reach, reach}), {window, window}, {1, 1});
  x = at::_upsample_bilinear2d_aa(x, {size.height, size.width}, /*align_corners=*/false);
  x = (x > rule.threshold).to(at::kFloat);
  if (rule.expand_pixels > 0) x = grown(x, rule.expand_pixels);
  return (x * 255).to(at::kByte).view({size.height, size.width, 1}).cpu();
}

at::Tensor joined(const at::Tensor& was_HW1, const at::Tensor& fresh_HW1, Join join) {
  if (join == Join::replace || (join == Join::add && !was_HW1.defined())) return fresh_HW1;
  if (join == Join::add) return was_HW1 + at::minimum(fresh_HW1, 255 - was_HW1);
  const auto was = was_HW1.defined() ? was_HW1 : at::full_like(fresh_HW1, 255);
  return was - at::minimum(fresh_HW1, was);
}

}  // namespace burnish::masking
