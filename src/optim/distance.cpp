#include "optim/distance.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros_like.h>

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

void DistanceSums::reset() {
  numerator = at::zeros_like(numerator);
  denominator = at::zeros_like(denominator);
}

void DistanceSums::add(const std::vector<at::Tensor>& positions, const std::vector<at::Tensor>& gradients,
                       const std::vector<at::Tensor>& p0, const std::vector<at::Tensor>& s, const DistanceWeights& weights) {
  numerator = numerator.to(positions[0].device());
  denominator = denominator.to(positions[0].device());
  for (size_t i = 0; i < positions.size(); ++i) {
    const at::Tensor gradient = every(gradients[i], weights.slice_p);
    const at::Tensor way = p0[i] - every(positions[i], weights.slice_p);
    numerator.add_(gradient.to(at::kDouble).mul_(way).sum() * weights.weight);
    at::Tensor sum = s[i];
    sum.mul_(weights.beta3).add_(gradient * fp32(weights.s_weight));
    denominator.add_(at::linalg_vector_norm(sum, 1, /*dim=*/{}, /*keepdim=*/false, at::kDouble));
  }
}

}  // namespace burnish::optim
