#pragma once
#include <ATen/core/Tensor.h>

#include "base/codes.h"

namespace burnish::kernels {

/// An x of at most so many rows is multiplied with codes as they are read: for one row as for all of them every code is read once, and no
/// number of the weight leaves the first cache.
inline constexpr int64_t kFewRows = 16;

/// Tells whether x [..., in] is so multiplied with codes [N, bytes]: few rows, on a CPU, of a kind whose scales lie apart.
bool multiplies_few(const at::Tensor& x, const at::Tensor& codes, CodeKind kind);

/// Computes x Wᵀ, [M, in] fp32 -> [M, N] fp32, for a weight in codes and scales as `unpack` takes them, without rotation. Sums are fp32, in
/// an order that is the same for every row of x, whatever there is beside it, and on every processor.
at::Tensor multiply_few(const at::Tensor& x_MI, const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group);

}  // namespace burnish::kernels
