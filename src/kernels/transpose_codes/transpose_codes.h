#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// A copy of codes of a byte each, [N, I] -> [I, N], contiguous; for products that want their weight the other way round.
at::Tensor transpose_codes(const at::Tensor& codes_NI);

}  // namespace burnish::kernels
