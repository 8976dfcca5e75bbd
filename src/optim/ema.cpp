#include "optim/ema.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace burnish::optim {

double ema_decay(double decay, int64_t step) { return std::min(decay, static_cast<double>(1 + step) / static_cast<double>(10 + step)); }

Ema::Ema(ParameterList parameters) : parameters_(std::move(parameters)) {
  complete(parameters_, Rounding::nearest);
  for (const NamedParameter& parameter : parameters_) {
    averages_.emplace_back();
    if (parameter.owned) averages_.back() = exact_value(parameter).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  }
}

void Ema::update(double decay) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].owned) averages_[i].lerp_(exact_value(parameters_[i]).to(at::kFloat), 1.0 - decay);
  }
}

StateList Ema::state() const {
  StateList list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].owned) list.emplace_back(parameters_[i].name + ".ema", averages_[i]);
  }
  return list;
}

void Ema::load_state(const StateList& saved) {
  load_into("moving average", state(), saved, std::ranges::all_of(parameters_, &NamedParameter::owned));
}

}  // namespace burnish::optim
