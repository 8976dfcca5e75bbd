#pragma once
#include <ATen/core/Tensor.h>

// Squares of a grid of tokens within which tokens attend each other.
namespace burnish::nn {

/// Puts [B, H, W, C] into windows of a side that divides H and W: [B · windows, side · side, C].
inline at::Tensor windows_of(const at::Tensor& x_BHWC, int64_t side) {
  const auto rows = x_BHWC.size(1) / side, columns = x_BHWC.size(2) / side;
  return x_BHWC.reshape({x_BHWC.size(0), rows, side, columns, side, -1})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({-1, side * side, x_BHWC.size(3)});
}

/// Puts such windows back into their grid: [B, H, W, C].
inline at::Tensor out_of_windows(const at::Tensor& windows_NLC, int64_t side, int64_t height, int64_t width) {
  return windows_NLC.reshape({-1, height / side, width / side, side, side, windows_NLC.size(2)})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({-1, height, width, windows_NLC.size(2)});
}

}  // namespace burnish::nn
