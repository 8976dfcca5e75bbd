#pragma once
#include "kernels/quantize_rows/coded_rows.h"

namespace burnish::kernels {

/// Tells whether int8_rows_cpu takes this: rows of adjacent fp32 or bf16 numbers on the CPU.
bool int8_rows_fit_cpu(const at::Tensor& x_NI);

/// Computes quantize_rows to INT8 in one pass over x.
CodedRows int8_rows_cpu(const at::Tensor& x_NI, const at::Tensor& gain_I, int64_t rotation);

}  // namespace burnish::kernels
