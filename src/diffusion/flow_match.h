#pragma once
#include <ATen/core/Tensor.h>

namespace burnish::diffusion {

/// (1 - sigma) x₀ + sigma ε (Lipman et al. 2023, arXiv 2210.02747). x₀, ε [B, ...]; sigma [B] fp32. Computed in fp32.
at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma_B);

/// The velocity ε - x₀.
at::Tensor velocity(const at::Tensor& x0, const at::Tensor& noise);

/// mean((prediction - target)²) of each sample, in fp32 -> [B].
at::Tensor squared_error(const at::Tensor& prediction, const at::Tensor& target);

/// Standard normal numbers from a key of their own, fp32 on the CPU.
at::Tensor normal_noise(uint64_t key, at::IntArrayRef shape);

}  // namespace burnish::diffusion
