#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether modulated_norm_cpu takes these: contiguous fp32 or bf16 on the CPU, all of one dtype (scale and shift: rows contiguous).
bool modulated_norm_fits_cpu(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD);

/// Computes modulated_norm in one pass over x each way, fp32 inside; saves x, the mean and the inverse deviation of each row.
at::Tensor modulated_norm_cpu(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);

}  // namespace burnish::kernels
