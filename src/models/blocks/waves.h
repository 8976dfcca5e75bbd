#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::models {

/// Computes sinusoids of numbers, cosines first, in fp64 (official: sinusoidal_embedding_1d): [B] -> [B, channels] in fp32.
at::Tensor waves(const at::Tensor& x_B, int64_t channels);

}  // namespace burnish::models
