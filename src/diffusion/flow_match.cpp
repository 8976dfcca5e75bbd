#include "diffusion/flow_match.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

namespace burnish::diffusion {

at::Tensor squared_error(const at::Tensor& prediction, const at::Tensor& target) {
  return (prediction.to(at::kFloat) - target.to(at::kFloat)).square().flatten(1).mean(1);
}

at::Tensor normal_noise(uint64_t key, at::IntArrayRef shape) {
  const uint64_t seed = (key ^ (key >> 32)) & 0xffffffffULL;
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions().dtype(at::kFloat));
}

}  // namespace burnish::diffusion
