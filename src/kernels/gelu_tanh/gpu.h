#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether gelu_tanh_gpu takes this: contiguous fp32 or bf16 on a GPU that there are kernels for, a multiple of 16 numbers.
bool gelu_tanh_fits_gpu(const at::Tensor& x);

/// Computes gelu_tanh with what backward computes formed from x alone, fp32 inside.
at::Tensor gelu_tanh_gpu(const at::Tensor& x);

}  // namespace burnish::kernels
