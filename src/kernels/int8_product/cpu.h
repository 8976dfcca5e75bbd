#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether int8_sums_cpu_ multiplies on this processor: one with AVX2, or of aarch64 with dot products, unless ATEN_CPU_CAPABILITY
/// says that it is to be used as an older one.
bool has_int8_sums_cpu();

/// sums = a b, exact: a [M, K] and b [K, N] of INT8 codes, any strides, sums int32 [M, N], contiguous. Two or four products are added
/// in 32 bits by one instruction (`vpmaddwd`, `sdot`). K at most 131071, beyond which a sum may not fit.
void int8_sums_cpu_(const at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_KN);

}  // namespace burnish::kernels
