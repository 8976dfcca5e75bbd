#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether modulated_norm_gpu takes these: contiguous fp32 or bf16 on a GPU that there are kernels for, all of one dtype, with rows
/// of a multiple of 16 numbers, at most 8192.
bool modulated_norm_fits_gpu(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD);

/// Computes modulated_norm in one pass over x each way, fp32 inside; saves x, the mean and the inverse deviation of each row.
at::Tensor modulated_norm_gpu(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);

}  // namespace burnish::kernels
