#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether int8_rows_cpu takes this: rows of adjacent fp32 or bf16 numbers on the CPU.
bool int8_rows_fit_cpu(const at::Tensor& x_NI);

/// Computes quantize_rows to INT8 in one pass over x, into `codes` [N, I] INT8 and `scales` [N, 1] fp32, both contiguous.
void int8_rows_cpu(const at::Tensor& x_NI, const at::Tensor& gain_I, int64_t rotation, const at::Tensor& codes_NI,
                   const at::Tensor& scales_N1);

}  // namespace burnish::kernels
