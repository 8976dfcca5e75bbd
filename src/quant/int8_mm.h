#pragma once
#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/scaled_sums/scaled_sums.h"

namespace burnish::quant {

/// Tells whether the device multiplies INT8 numbers in hardware with exact sums. A CPU that adds pairs of products in 16 bits does not.
bool has_int8_products(c10::Device device);
/// Tells whether it so multiplies a weight [out, in].
bool has_int8_products(c10::Device device, int64_t out, int64_t in);

/// y = (a b) · scales of rows and of `columns` + bias, or with `adds` y += it: a [M, K] INT8 rows, b [K, N] INT8 codes of any strides,
/// `columns` and `bias` [N] or undefined. Sums are 32 bits wide and never held for more than a tile.
void int8_mm_(const at::Tensor& y_MN, const kernels::CodedRows& a, const at::Tensor& b_KN, const at::Tensor& columns_1N,
              const at::Tensor& bias_N, bool adds);

}  // namespace burnish::quant
