#include "diffusion/flow_match.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/randn.h>

#include <vector>

namespace burnish::diffusion {

at::Tensor add_noise(const at::Tensor& x0, const at::Tensor& noise, const at::Tensor& sigma_B) {
  std::vector<int64_t> per_sample(x0.dim(), 1);
  per_sample[0] = sigma_B.size(0);
  auto sigma = sigma_B.reshape(per_sample).to(x0.device(), at::kFloat);
  return x0.to(at::kFloat) * (1.0 - sigma) + noise.to(at::kFloat) * sigma;
}

at::Tensor velocity(const at::Tensor& x0, const at::Tensor& noise) { return noise.to(at::kFloat) - x0.to(at::kFloat); }

at::Tensor squared_error(const at::Tensor& prediction, const at::Tensor& target) {
  return (prediction.to(at::kFloat) - target.to(at::kFloat)).square().flatten(1).mean(1);
}

at::Tensor normal_noise(uint64_t key, at::IntArrayRef shape) {
  const uint64_t seed = (key ^ (key >> 32)) & 0xffffffffULL;
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(seed), at::TensorOptions().dtype(at::kFloat));
}

}  // namespace burnish::diffusion
