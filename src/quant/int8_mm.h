#pragma once
#include "kernels/scaled_sums/scaled_sums.h"

namespace burnish::quant {

/// Tells whether the device multiplies INT8 numbers in hardware with exact sums. A CPU that adds pairs of products in 16 bits does not, nor
/// one that has no such products, which is found by their time.
bool has_int8_products(c10::Device device);
/// Tells whether it so multiplies a weight [out, in].
bool has_int8_products(c10::Device device, int64_t out, int64_t in);

/// y = (a b) · scales + bias, rotated as these say, or with `adds` y += it: a [M, K] INT8 codes, b [K, N] INT8 codes of any strides. Sums
/// are 32 bits wide and never held for more than a tile.
void int8_mm_(const at::Tensor& y_MN, const at::Tensor& a_MK, const at::Tensor& b_KN, const kernels::Scales& scales, bool adds);

}  // namespace burnish::quant
