#pragma once
#include "kernels/scaled_sums/scaled_sums.h"

namespace burnish::quant {

/// Tells whether the device multiplies INT8 numbers with exact sums, faster than fp32: a CPU by oneDNN where that has such products, else
/// by our own of AVX2 or NEON (kernels/int8_product).
bool has_int8_products(c10::Device device);
/// Tells whether a step over rotated weights is clearly faster by these products than one in numbers: by oneDNN's on a CPU it is, by our
/// own it takes 0.93 of the time at best (benchmarks/results/2026-11.md). Of GPUs it is not known.
bool rotated_products_are_faster(c10::Device device);
/// Tells whether it so multiplies a weight [out, in].
bool has_int8_products(c10::Device device, int64_t out, int64_t in);

/// y = (a b) · scales + bias, rotated as these say, or with `adds` y += it: a [M, K] INT8 codes, b [K, N] INT8 codes of any strides. Sums
/// are 32 bits wide and never held for more than a tile.
void int8_mm_(const at::Tensor& y_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, const kernels::Scales& scales, bool adds);

}  // namespace burnish::quant
