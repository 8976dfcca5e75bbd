#pragma once
#include "nn/recomputed_values.h"

// Modulation of transformers that compute it in fp32, whatever their tokens are in. Shape letters: B batch, L tokens, D width.
namespace burnish::nn {

/// Computes LN(x) · (1 + scale) + shift in the dtype of scale and shift, and gives it in that of x.
at::Tensor modulated(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);
/// Makes what computes this of {x, scale, shift}, given once or for several runs of tokens -> {the results, one behind the other}.
Compute modulated_runs(double eps);
/// Computes x + gate · y in the dtype of the gate, and gives it in that of x.
at::Tensor gated(const at::Tensor& x_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD);

}  // namespace burnish::nn
