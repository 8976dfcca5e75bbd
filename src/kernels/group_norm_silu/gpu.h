#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether group_norm_silu_gpu takes these: contiguous fp32 or bf16 on a GPU that there are kernels for, all of one dtype, a multiple
/// of 16 pixels and at most 128 channels a group.
bool group_norm_silu_fits_gpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias);

/// Computes group_norm_silu in a pass for the statistics and one for the result each way, fp32 inside; saves x and two numbers a channel.
at::Tensor group_norm_silu_gpu(const at::Tensor& x, int64_t num_groups, const at::Tensor& weight, const at::Tensor& bias, double eps);

}  // namespace burnish::kernels
