#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether gated_residual_gpu takes these: contiguous fp32 or bf16 on a GPU that there are kernels for, all of one dtype and of the
/// sizes that the operator names, with rows of a multiple of 16 numbers, at most 8192.
bool gated_residual_fits_gpu(const at::Tensor& residual_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD);

/// Computes gated_residual in one pass each way, fp32 inside; saves the gate, and y where the gate has a gradient.
at::Tensor gated_residual_gpu(const at::Tensor& residual_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD);

}  // namespace burnish::kernels
