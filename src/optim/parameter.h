#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace burnish::optim {

/// A trained tensor and its name in saved states; the tensor shares storage with the model's.
struct NamedParameter {
  std::string name;
  at::Tensor value;
  double lr_factor = 1;  ///< of the step's learning rate
};

using ParameterList = std::vector<NamedParameter>;

}  // namespace burnish::optim
