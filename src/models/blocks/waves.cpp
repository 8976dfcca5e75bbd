#include "models/blocks/waves.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <cmath>

namespace burnish::models {

at::Tensor waves(const at::Tensor& x_B, int64_t channels) {
  auto half = channels / 2;
  auto x = x_B.to(at::kDouble);
  auto frequencies = (at::arange(half, x.options()) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = x.unsqueeze(1) * frequencies.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1).to(at::kFloat);
}

}  // namespace burnish::models
