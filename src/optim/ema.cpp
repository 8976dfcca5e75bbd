#include "optim/ema.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace burnish::optim {

double ema_decay(double decay, int64_t step) { return std::min(decay, static_cast<double>(1 + step) / static_cast<double>(10 + step)); }

Ema::Ema(ParameterList parameters) : parameters_(std::move(parameters)) {
  complete(parameters_, Rounding::nearest);
  for (const NamedParameter& parameter : parameters_)
    averages_.push_back(exact_value(parameter).to(at::kFloat, /*non_blocking=*/false, /*copy=*/true));
}

void Ema::update(double decay) {
  TORCH_INTERNAL_ASSERT(!swapped_in(), "Ema::update while the averages are swapped in");
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) averages_[i].lerp_(exact_value(parameters_[i]).to(at::kFloat), 1.0 - decay);
}

void Ema::swap_in() {
  TORCH_INTERNAL_ASSERT(!swapped_in(), "Ema::swap_in twice");
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : values(parameters_)) kept_.push_back(tensor.clone());
  for (size_t i = 0; i < parameters_.size(); ++i) parameters_[i].store->write(0, averages_[i].clone().view({-1}), std::nullopt);
}

void Ema::swap_out() {
  const at::NoGradGuard no_grad;
  size_t place = 0;
  for (const auto& [name, tensor] : values(parameters_)) tensor.copy_(kept_.at(place++));
  kept_.clear();
}

StateList Ema::state() const {
  StateList list;
  for (size_t i = 0; i < parameters_.size(); ++i) list.emplace_back(parameters_[i].name + ".ema", averages_[i]);
  return list;
}

void Ema::load_state(const StateList& saved) { load_into("moving average", state(), saved); }

}  // namespace burnish::optim
