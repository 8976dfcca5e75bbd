#include "optim/distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>

namespace burnish::optim {
namespace {

/// Every n-th element.
at::Tensor every(const at::Tensor& flat, int64_t n) { return flat.slice(0, 0, flat.numel(), n); }

}  // namespace

at::Tensor fp64(double number, const at::Device& device) { return at::full({}, number, at::TensorOptions(at::kDouble).device(device)); }

at::Tensor fp32(const at::Tensor& number) { return number.to(at::kFloat); }

std::vector<Slot> distance_slots(const NamedParameter& parameter, int64_t slice_p) {
  const at::Tensor start = exact_value(parameter).detach().to(at::kFloat).reshape({-1});
  const at::Tensor p0 = every(start, slice_p).clone();
  return {{"p0", p0, slice_p}, {"s", zeros_for(parameter, p0.sizes()), slice_p}};
}

void add_distances(const Batch& batch, const std::vector<at::Tensor>& positions, const DistanceWeights& weights) {
  for (size_t i = 0; i < positions.size(); ++i) {
    const at::Tensor &p0 = batch.slots[i][0], &sums = batch.sums[i];
    const at::Tensor gradient = every(batch.gradients[i], weights.slice_p);
    const at::Tensor way = p0 - every(positions[i], weights.slice_p);
    sums.select(0, 0).add_(gradient.to(at::kDouble).mul_(way).sum() * weights.weight);
    at::Tensor s = batch.slots[i][1];
    s.mul_(weights.beta3).add_(gradient * fp32(weights.s_weight));
    sums.select(0, 1).add_(at::linalg_vector_norm(s, 1, /*dim=*/{}, /*keepdim=*/false, at::kDouble));
  }
}

}  // namespace burnish::optim
