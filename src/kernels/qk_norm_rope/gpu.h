#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Tells whether qk_norm_rope_gpu takes these: contiguous fp32 or bf16 on a GPU that there are kernels for, weight of the same dtype,
/// contiguous tables in fp32, heads of 64 or 128 numbers, of 128 and at most 64 heads where all are normed together.
bool qk_norm_rope_fits_gpu(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP);

/// Computes qk_norm_rope in one pass over x each way, fp32 inside; saves x alone.
at::Tensor qk_norm_rope_gpu(const at::Tensor& x_BLHD, const at::Tensor& weight, const at::Tensor& cos_LP, const at::Tensor& sin_LP,
                            double eps);

}  // namespace burnish::kernels
