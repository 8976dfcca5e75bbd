#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "optim/optimizer.h"

namespace burnish::optim {

void Optimizer::zero_grad() {
  for (auto& p : parameters_) p.value.mutable_grad() = at::Tensor();
}

double gradient_norm(const ParameterList& parameters) {
  double sum = 0;
  for (const auto& p : parameters) {
    if (!p.value.grad().defined()) continue;
    auto norm = at::linalg_vector_norm(p.value.grad(), 2, std::nullopt, false, at::kFloat).item<double>();
    sum += norm * norm;
  }
  return std::sqrt(sum);
}

void clip_gradients(const ParameterList& parameters, double norm, double max_norm) {
  if (max_norm <= 0) return;
  auto factor = max_norm / (norm + 1e-6);
  if (!(factor < 1)) return;
  for (const auto& p : parameters) {
    if (p.value.grad().defined()) p.value.grad().mul_(factor);
  }
}

void check(const ScheduleOptions& options) {
  if (options.name == "constant" || options.name == "linear" || options.name == "cosine") return;
  config_error("optim", "lr_scheduler '{}' is not known; choose constant, linear or cosine", options.name);
}

double lr_factor(const ScheduleOptions& o, int64_t step) {
  if (step < o.warmup_steps) return static_cast<double>(step + 1) / static_cast<double>(o.warmup_steps);
  if (o.name == "constant") return 1.0;
  auto length = std::max<int64_t>(1, o.max_steps - o.warmup_steps);
  auto done = std::clamp(static_cast<double>(step - o.warmup_steps) / static_cast<double>(length), 0.0, 1.0);
  return o.name == "linear" ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
}

}  // namespace burnish::optim
