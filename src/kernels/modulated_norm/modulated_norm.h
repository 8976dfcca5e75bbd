#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Layer norm without learned parameters, then adaLN modulation: LN(x) · (1 + scale) + shift, with autograd.
/// x [B, L, D], scale and shift [B, D] -> [B, L, D]. Saves x and two numbers a row; the normalised rows are recomputed
/// in backward. Formula: AdaLayerNormZero, Peebles & Xie 2023 (arXiv 2212.09748).
at::Tensor modulated_norm(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);

/// Computes modulated_norm in plain ATen: the oracle, and the path for devices without a tuned kernel.
at::Tensor modulated_norm_reference(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);

}  // namespace burnish::kernels
