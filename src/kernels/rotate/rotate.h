#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Rotates every `group` neighbours of rows in place by the regular Hadamard matrix of ConvRot (arXiv 2512.03673): the Kronecker power of
/// H4 = ½ [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], which is symmetric, orthogonal and its own inverse. rows [n, in]
/// fp32, contiguous; `group` is a power of 4 and divides `in`.
void rotate_(const at::Tensor& rows, int64_t group);

/// Rotates n numbers on the CPU, as rotate_ does; `group` divides n.
void rotate_row(float* numbers, int64_t n, int64_t group);

}  // namespace burnish::kernels
