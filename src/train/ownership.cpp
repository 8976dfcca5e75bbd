#include "train/ownership.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "optim/gradients.h"

namespace burnish::train {

void Ownership::mark(optim::ParameterList& parameters) const {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].owned = owners_[i] == world_.rank();
}

void Ownership::share(const optim::ParameterList& parameters) const {
  std::vector<dist::Owned> weights;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (const auto& [name, tensor] : parameters[i].store->weights())
      weights.push_back({owners_[i], tensor, static_cast<int64_t>(tensor.nbytes())});
  }
  dist::share(world_.group(), weights);
  for (const optim::NamedParameter& parameter : parameters) {
    if (!parameter.owned) optim::mark_changed(parameter);
  }
}

void Ownership::sum(const at::Tensor& numbers) const { world_.group().sum(numbers)->wait(); }

at::Tensor Ownership::gradient_norm(const optim::ParameterList& parameters) const {
  return optim::gradient_norm_of_owners(parameters, [this](const at::Tensor& numbers) { sum(numbers); });
}

std::vector<at::Tensor> Ownership::exact_values(const optim::ParameterList& parameters, optim::Rounding rounding,
                                                c10::ScalarType dtype) const {
  std::vector<at::Tensor> values(parameters.size());
  if (rounding != optim::Rounding::remainder) return values;
  std::vector<dist::Owned> travel;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const optim::NamedParameter& parameter = parameters[i];
    if (parameter.value.scalar_type() != at::kBFloat16) continue;
    if (parameter.owned) values[i] = optim::kept_value(parameter).to(dtype).contiguous();
    else if (is_first()) values[i] = at::empty(parameter.value.sizes(), parameter.value.options().dtype(dtype).requires_grad(false));
    travel.push_back({owners_[i], values[i], parameter.value.numel() * static_cast<int64_t>(c10::elementSize(dtype))});
  }
  dist::share(world_.group(), travel);
  return values;
}

std::unique_ptr<Ownership> ownership_of(const optim::ParameterList& parameters, int64_t zero_stage, const dist::World& world) {
  if (zero_stage == 0 || world.size() == 1) return nullptr;
  std::vector<int64_t> numels;
  for (const optim::NamedParameter& parameter : parameters) numels.push_back(parameter.value.numel());
  return std::make_unique<Ownership>(world, dist::owners_of(numels, world.size()), zero_stage);
}

}  // namespace burnish::train
