#pragma once
#include "nn/recomputed_values.h"

namespace burnish::models {

/// Makes what computes {x [B, L, D], weight of an RMS norm [D]} -> the norm of x; times 1 + scale where a scale [B, D] is third
/// (nn/recomputed_values.h).
nn::Compute scaled_norm_by(double eps);

/// Adds the norm of y, times tanh(gate) [B, D] where a gate is given: x + tanh(gate) · norm(y), the norm computed again in backward.
at::Tensor with_normed(const at::Tensor& x_BLD, const at::Tensor& y_BLD, const at::Tensor& weight, double eps, const at::Tensor& gate_BD);

}  // namespace burnish::models
