#pragma once
#include "models/model/names.h"
#include "optim/optimizer.h"

namespace burnish::train {

/// Names of parameters without a gradient: parameters that get none by what the family says, and the others.
struct Ungraded {
  std::vector<std::string> expected, unexpected;
};
Ungraded without_gradient(const optim::ParameterList& parameters, const models::Names& names);

}  // namespace burnish::train
