#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// value · GELU(gate), of x = [value | gate] along the last dimension (Shazeer 2020, arXiv 2002.05202), with autograd. Saves x alone.
/// x [..., 2 D] -> [..., D].
at::Tensor geglu(const at::Tensor& x);

}  // namespace burnish::kernels
