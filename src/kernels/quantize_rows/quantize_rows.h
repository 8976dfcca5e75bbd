#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Rows as E4M3 codes [N, I] with an fp32 scale each, [N, 1]: the largest magnitude over 448 (of a row of zeros: 1e-12 over 448).
struct Fp8Rows {
  at::Tensor codes_NI, scales_N1;
};

/// Computes x · gain in codes, rounded to nearest, without autograd; gain [I] in fp32, or undefined for 1. x [N, I] of any dtype.
Fp8Rows quantize_rows(const at::Tensor& x_NI, const at::Tensor& gain_I);

}  // namespace burnish::kernels
