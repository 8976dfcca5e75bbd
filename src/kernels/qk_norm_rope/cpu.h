#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether qk_norm_rope_cpu takes these: contiguous fp32 or bf16 on the CPU, weight of the same dtype, tables in fp32.
bool qk_norm_rope_fits_cpu(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP);

/// Computes qk_norm_rope in one pass over x each way, fp32 inside; saves x alone.
at::Tensor qk_norm_rope_cpu(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                            double eps);

}  // namespace burnish::kernels
