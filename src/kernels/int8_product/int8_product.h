#pragma once
#include "kernels/scaled_sums/scaled_sums.h"

namespace burnish::kernels {

/// Tells whether there is a kernel for a bᵀ of INT8 codes a [M, K], b [N, K] on their GPU: contiguous and aligned, K and N multiples of 16.
bool int8_product_fits_gpu(const at::Tensor& a_MK, const at::Tensor& b_NK);

/// Tells whether it also scales the sums into y [M, N]: bf16, whose rows lie apart by a multiple of 16 numbers, and scales do not rotate.
bool scales_int8_product_gpu(const at::Tensor& y_MN, const Scales& scales);

/// sums = a bᵀ, int32 [M, N], contiguous. For what int8_product_fits_gpu takes.
void int8_sums_gpu_(const at::Tensor& sums_MN, const at::Tensor& a_MK, const at::Tensor& b_NK);

/// y = (a bᵀ) · scales + bias, or with `adds` y += it, in fp32 before it is rounded. For what both take.
void int8_product_gpu_(const at::Tensor& y_MN, const at::Tensor& a_MK, const at::Tensor& b_NK, const Scales& scales, bool adds);

}  // namespace burnish::kernels
