#include "train/run/without_gradient.h"

namespace burnish::train {

Ungraded without_gradient(const optim::ParameterList& parameters, const models::Names& names) {
  Ungraded found;
  for (const auto& parameter : parameters) {
    if (parameter.value.grad().defined()) continue;
    (names.is_without_gradient(parameter.name) ? found.expected : found.unexpected).push_back(parameter.name);
  }
  return found;
}

}  // namespace burnish::train
