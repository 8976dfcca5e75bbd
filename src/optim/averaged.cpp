#include "optim/averaged.h"

#include <ATen/core/grad_mode.h>

#include <utility>

namespace burnish::optim {

Averaged::Averaged(const Optimizer& optimizer, const Ema* ema, Sharing sharing) : sharing_(std::move(sharing)) {
  const at::NoGradGuard no_grad;
  if (ema == nullptr && !optimizer.averages()) {
    sharing_ = {};
    return;
  }
  for (size_t i = 0; i < optimizer.parameters().size(); ++i) {
    const at::Tensor average = ema != nullptr ? ema->average(i) : optimizer.average(i);
    const NamedParameter& parameter = optimizer.parameters()[i];
    if (parameter.owned && !average.defined()) continue;
    StateList copies = parameter.store->state();
    for (auto& [name, tensor] : copies) tensor = tensor.clone();
    kept_.push_back({&parameter, std::move(copies)});
    if (parameter.owned) parameter.store->write(0, average.clone().view({-1}), std::nullopt);
    mark_changed(parameter);
  }
  if (sharing_.bring) sharing_.bring();
}

Averaged::~Averaged() {
  const at::NoGradGuard no_grad;
  for (const auto& [parameter, copies] : kept_) {
    const StateList live = parameter->store->state();
    for (size_t i = 0; i < live.size(); ++i) live[i].second.copy_(copies[i].second);
    mark_changed(*parameter);
  }
  if (sharing_.forget) sharing_.forget();
}

}  // namespace burnish::optim
