#include "optim/optimizer.h"

#include <array>

#include "base/choice.h"
#include "optim/adamw.h"

namespace burnish::optim {

void Optimizer::zero_grad() {
  for (NamedParameter& parameter : parameters_) parameter.value.mutable_grad() = at::Tensor();
}

void check(const OptimizerOptions& options) {
  const std::array<std::string, 1> names = {"adamw"};
  if (options.name != names[0]) unknown_choice("optim", "optimizer", options.name, names);
  for (const double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) config_error("optim", "betas must be in [0, 1), found {}", beta);
  }
  if (!(options.eps >= 0)) config_error("optim", "eps must not be negative, found {}", options.eps);
  if (!(options.weight_decay >= 0)) config_error("optim", "weight_decay must not be negative, found {}", options.weight_decay);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters) {
  check(options);
  for (const NamedParameter& parameter : parameters) {
    if (!at::isFloatingType(parameter.value.scalar_type()) || parameter.value.element_size() < 2) {
      config_error("optim", "expected fp32, bf16 or fp16 parameters, found {} of dtype {}", parameter.name,
                   c10::toString(parameter.value.scalar_type()));
    }
  }
  complete(parameters, options.rounding);
  return std::make_unique<AdamW>(options, std::move(parameters));
}

}  // namespace burnish::optim
