#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::models::text {

/// Turns the second half of every head against the first: pair i is (x_i, x_(i + D/2)). x [B, H, L, D], cos and sin [L, D/2].
at::Tensor rotate_halves(const at::Tensor& x_BHLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP);

}  // namespace burnish::models::text
