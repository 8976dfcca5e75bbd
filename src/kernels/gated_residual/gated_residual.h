#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// residual + gate · y with autograd. residual and y [B, L, D], gate [B, D] -> [B, L, D].
at::Tensor gated_residual(const at::Tensor& residual_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD);

}  // namespace burnish::kernels
