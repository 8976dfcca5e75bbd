#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// RMS norm of every head's vector, or of a token's heads together, then rotary position embedding on adjacent pairs, with autograd.
/// x [B, L, H, D]; weight [D], or [H, D] for a norm of all heads together; cos and sin [L, D/2] in fp32, or [B, L, D/2] where positions
/// differ between samples -> [B, H, L, D] ready for attention, with heads of a token side by side in memory but on GPUs. Pair (x₀, x₁)
/// becomes (x₀ cos - x₁ sin, x₁ cos + x₀ sin), computed in fp32 (RoFormer, arXiv 2104.09864; the pairing of FLUX.1).
at::Tensor qk_norm_rope(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP, double eps);

/// Tells whether qk_norm_rope is one pass that holds nothing beside its result; else it holds several of x's size in fp32.
bool qk_norm_rope_is_one_pass(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP);

/// Computes qk_norm_rope in plain ATen: the oracle, and the path for devices without a tuned kernel.
at::Tensor qk_norm_rope_reference(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                                  double eps);

}  // namespace burnish::kernels
