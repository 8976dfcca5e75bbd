#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::nn {

/// Computes softmax(q kᵀ · scale + bias) v. q, k, v: [B, H, L, D] -> [B, H, L, D]; `bias` (may be undefined) broadcasts to [B, H, L, L].
/// The default scale is 1/sqrt(D). Computed by tiles, so that no matrix [B, H, L, L] is ever whole, forward or in backward, but where ATen
/// has no fused kernel: a bias that trains, and bf16 on GPUs before Ampere (docs/decisions/0027).
at::Tensor attention(const at::Tensor& q_BHLD, const at::Tensor& k_BHLD, const at::Tensor& v_BHLD, const at::Tensor& bias = {},
                     bool causal = false, double scale = 0);

/// Splits heads: [B, L, H·D] -> [B, H, L, D] (a view).
at::Tensor split_heads(const at::Tensor& x_BLE, int64_t num_heads);

/// Joins heads: [B, H, L, D] -> [B, L, H·D].
at::Tensor merge_heads(const at::Tensor& x_BHLD);

}  // namespace burnish::nn
