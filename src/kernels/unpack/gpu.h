#pragma once
#include <ATen/core/Tensor.h>

#include "base/codes.h"

namespace burnish::kernels {

/// Tells whether unpack_gpu takes these: contiguous codes on a GPU that there are kernels for, with as many values a scale as formats have,
/// rows of a multiple of 16 numbers and bytes, to fp32 or bf16.
bool unpack_fits_gpu(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype);

/// Computes unpack in one pass.
at::Tensor unpack_gpu(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype);

}  // namespace burnish::kernels
