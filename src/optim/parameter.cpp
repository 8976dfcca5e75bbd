#include "optim/parameter.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace burnish::optim {

bool owns_all(const ParameterList& parameters) { return std::ranges::all_of(parameters, &NamedParameter::owned); }

void complete(ParameterList& parameters, Rounding rounding) {
  for (auto& parameter : parameters) {
    if (!parameter.store) parameter.store = store_in(parameter.value, parameter.owned ? rounding : Rounding::nearest);
  }
}

at::Tensor exact_value(const NamedParameter& parameter) {
  auto tensor = parameter.store->tensor();
  if (tensor.defined()) return tensor;
  auto exact = at::empty(parameter.value.sizes(), parameter.value.options().dtype(at::kFloat).requires_grad(false));
  parameter.store->read(0, exact.view({-1}));
  return exact;
}

at::Tensor kept_value(const NamedParameter& parameter) {
  auto parts = parameter.store->state();
  return parts.size() == 1 && parts[0].second.sizes() == parameter.value.sizes() ? parts[0].second : exact_value(parameter);
}

void mark_changed(const NamedParameter& parameter) { parameter.value.unsafeGetTensorImpl()->bump_version(); }

StateList values(const ParameterList& parameters) {
  StateList list;
  for (const auto& parameter : parameters) {
    if (!parameter.owned) continue;
    for (auto& [ending, tensor] : parameter.store->state()) list.emplace_back(parameter.name + ending, tensor);
  }
  return list;
}

}  // namespace burnish::optim
