#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// GELU by its tanh formula: x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel 2016, arXiv 1606.08415), with autograd.
/// Saves x alone. Any shape.
at::Tensor gelu_tanh(const at::Tensor& x);

}  // namespace burnish::kernels
