#include "optim/ema.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

namespace burnish::optim {

Ema::Ema(ParameterList parameters) : parameters_(std::move(parameters)) {
  for (const NamedParameter& parameter : parameters_) {
    averages_.push_back(parameter.value.detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
  }
}

void Ema::update(double decay) {
  TORCH_INTERNAL_ASSERT(!swapped_in(), "Ema::update while the averages are swapped in");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) averages_[i].lerp_(parameters_[i].value.to(at::kFloat), 1.0 - decay);
}

void Ema::swap_in() {
  TORCH_INTERNAL_ASSERT(!swapped_in(), "Ema::swap_in twice");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    kept_.push_back(parameters_[i].value.detach().clone());
    parameters_[i].value.copy_(averages_[i]);
  }
}

void Ema::swap_out() {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < kept_.size(); ++i) parameters_[i].value.copy_(kept_[i]);
  kept_.clear();
}

StateList Ema::state() const {
  StateList list;
  for (size_t i = 0; i < parameters_.size(); ++i) list.emplace_back(parameters_[i].name + ".ema", averages_[i]);
  return list;
}

void Ema::load_state(const StateList& saved) { load_into("moving average", state(), saved); }

}  // namespace burnish::optim
