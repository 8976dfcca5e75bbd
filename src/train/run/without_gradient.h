#pragma once
#include "models/names.h"
#include "optim/optimizer.h"

namespace burnish::train {

/// Names of parameters without a gradient: those of which the family says that they get none, and the others.
struct Ungraded {
  std::vector<std::string> expected, unexpected;
};
Ungraded without_gradient(const optim::ParameterList& parameters, const models::Names& names);

}  // namespace burnish::train
