#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// SiLU of a group norm, z · sigmoid(z) with z = (x - mean) / sqrt(var + eps) · weight + bias, with autograd. Saves x and a mean and a
/// deviation for each group; the norm's own result is formed again in backward.
/// x [B, C, ...], weight and bias [C] -> as x.
at::Tensor group_norm_silu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps);

}  // namespace burnish::kernels
