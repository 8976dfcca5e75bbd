#include "diffusion/flow_match.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>

namespace burnish::diffusion {

at::Tensor normal_noise(uint64_t key, at::IntArrayRef shape) {
  const uint64_t seed = (key ^ (key >> 32)) & 0xffffffffULL;
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions().dtype(at::kFloat));
}

}  // namespace burnish::diffusion
