#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether group_norm_silu_cpu takes these: contiguous fp32 or bf16 on the CPU, all of one dtype.
bool group_norm_silu_fits_cpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias);

/// Computes group_norm_silu in one pass for the statistics and one for the result, a group at a time while it is in the cache; fp32 inside.
at::Tensor group_norm_silu_cpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps);

}  // namespace burnish::kernels
