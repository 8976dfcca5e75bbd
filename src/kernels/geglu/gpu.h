#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether geglu_gpu takes this: contiguous fp32 or bf16 on a GPU that there are kernels for, rows of a multiple of 32 numbers.
bool geglu_fits_gpu(const at::Tensor& x);

/// Computes geglu in one pass each way, fp32 inside; saves x alone.
at::Tensor geglu_gpu(const at::Tensor& x);

}  // namespace burnish::kernels
