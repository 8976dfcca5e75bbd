#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::diffusion {

/// Computes mean((prediction - target)²) of each sample, in fp32 -> [B]; differentiable in the prediction.
at::Tensor squared_error(const at::Tensor& prediction, const at::Tensor& target);

/// Standard normal numbers, fp32 on the CPU, a function of the key alone; no global generator is read or advanced. A key below 2^32
/// draws what torch.randn with a generator seeded by it draws; the upper half of a larger one is folded in, for ATen seeds by 32 bits.
at::Tensor normal_noise(uint64_t key, at::IntArrayRef shape);

}  // namespace burnish::diffusion
