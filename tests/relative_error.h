#pragma once
#include <ATen/ATen.h>

namespace burnish::test {

/// Largest difference over the largest expected value, wherever the two are.
inline double relative_error(const at::Tensor& found, const at::Tensor& expected) {
  auto a = found.detach().cpu().to(at::kDouble), b = expected.detach().cpu().to(at::kDouble);
  if (a.sizes() != b.sizes()) return 1e30;
  return ((a - b).abs().max() / b.abs().max().clamp_min(1e-30)).item<double>();
}

}  // namespace burnish::test
