#pragma once
#include <ATen/core/Tensor.h>

#include <array>

#include "kernels/unpack/code_kind.h"

namespace burnish::kernels {

/// Computes value · scale for every code, without autograd. codes [n, bytes] uint8: one code a byte, or for nf4 two (the first in the high
/// half); scales [n, groups] fp32, each for `group` neighbouring values of its row -> [n, in] in `dtype` (fp32, fp64, bf16 or fp16).
at::Tensor unpack(const at::Tensor& codes, CodeKind kind, const at::Tensor& scales, int64_t group, int64_t in, c10::ScalarType dtype);

/// The 16 values of NF4, ascending from -1 to 1 (Dettmers et al. 2023, arXiv 2305.14314, appendix E).
const std::array<float, 16>& nf4_values();

}  // namespace burnish::kernels
