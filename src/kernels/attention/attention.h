#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// softmax(q kᵀ · scale + bias) v by fused kernels, with autograd. q [B, H, L, D], k, v [B, H, S, D] -> [B, H, L, D]; `bias` (may be
/// undefined) broadcasts to [B, H, L, S]. On a GPU by the one of ATen's that takes least time forward and backward for these shapes
/// (docs/decisions/0043), on a CPU that multiplies bf16 by our own where it takes such a call (docs/decisions/0082), else by ATen's.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias, bool causal, double scale);

}  // namespace burnish::kernels
