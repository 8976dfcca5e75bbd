#include "train/step/ownership.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "optim/gradients.h"

namespace burnish::train {

Ownership::Ownership(std::shared_ptr<const dist::Mesh> mesh, const optim::ParameterList& parameters, int64_t stage,
                     const std::vector<PagedBlocksOf>& divided)
    : mesh_(std::move(mesh)), stage_(stage) {
  for (const auto& blocks : divided) pagers_.push_back(blocks.pager);
  auto owner_of = [&](const std::string& name) {
    std::optional<int64_t> owner;
    for (const auto& blocks : divided) owner = owner ? owner : blocks.owners.find(name);
    return owner;
  };
  std::vector<int64_t> numels;
  for (const optim::NamedParameter& parameter : parameters) {
    is_divided_.push_back(owner_of(parameter.name).has_value());
    if (!is_divided_.back()) numels.push_back(parameter.value.numel());
  }
  const auto others = dist::owners_of(numels, row().size());
  auto other = others.begin();
  for (const optim::NamedParameter& parameter : parameters) {
    const auto of_block = owner_of(parameter.name);
    owners_.push_back(of_block ? *of_block : *other++);
  }
}

void Ownership::mark(optim::ParameterList& parameters) const {
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].owned = owners_[i] == row().rank();
    if (is_divided_[i] && !parameters[i].owned) parameters[i].store = optim::kept_elsewhere();
  }
}

void Ownership::forget() const {
  for (const auto& pager : pagers_) pager->expire();
}

void Ownership::share(const optim::ParameterList& parameters) const {
  std::vector<dist::Owned> weights;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (is_divided_[i]) continue;
    for (const auto& [name, tensor] : parameters[i].store->weights())
      weights.push_back({owners_[i], tensor, static_cast<int64_t>(tensor.nbytes())});
  }
  dist::share(row(), weights);
  for (const optim::NamedParameter& parameter : parameters) {
    if (!parameter.owned) optim::mark_changed(parameter);
  }
  forget();
}

void Ownership::sum(const at::Tensor& numbers) const { row().sum(numbers)->wait(); }

at::Tensor Ownership::gradient_norm(const optim::ParameterList& parameters) const {
  return optim::gradient_norm_of_owners(parameters, [this](const at::Tensor& numbers) { sum(numbers); });
}

at::Tensor Ownership::exact_value(const optim::ParameterList& parameters, size_t number, optim::Rounding rounding,
                                  c10::ScalarType dtype) const {
  const optim::NamedParameter& parameter = parameters[number];
  const bool has_remainder = rounding == optim::Rounding::remainder && parameter.value.scalar_type() == at::kBFloat16;
  if (!is_divided_[number] && !has_remainder) return optim::kept_value(parameter).to(dtype);
  const auto options = at::TensorOptions(dtype).device(row().device());
  auto value = parameter.owned ? optim::kept_value(parameter).to(options).contiguous() : at::empty(parameter.value.sizes(), options);
  row().broadcast(value.view({-1}).view(at::kByte), owners_[number])->wait();
  return value;
}

}  // namespace burnish::train
