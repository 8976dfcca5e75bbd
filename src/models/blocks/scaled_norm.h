#pragma once
#include "nn/layers.h"
#include "nn/recomputed_values.h"

namespace burnish::models {

/// Makes what computes {weight of an RMS norm [D], of each kind of tokens x [B, L, D], and where it is scaled a scale [B, D]} -> the norm
/// of all x, one behind the other, each times 1 + its scale (nn/recomputed_values.h).
nn::Compute scaled_norm_by(double eps, bool is_scaled);

/// Adds the norm of y, times tanh(gate) [B, D] where a gate is given: x + tanh(gate) · norm(y), the norm computed again in backward.
at::Tensor with_normed(const at::Tensor& x_BLD, const at::Tensor& y_BLD, const nn::RMSNorm& norm, const at::Tensor& gate_BD);

}  // namespace burnish::models
