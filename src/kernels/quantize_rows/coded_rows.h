#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::kernels {

/// Rows as codes [N, I] of a byte each, E4M3 or INT8, with an fp32 scale each, [N, 1]: the largest magnitude over the largest code, 448 or
/// 127 (of a row of zeros: 1e-12 over it). NaN and infinity make a row's scale NaN or infinite.
struct CodedRows {
  at::Tensor codes_NI, scales_N1;
};

}  // namespace burnish::kernels
