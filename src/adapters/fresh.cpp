#include "adapters/fresh.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <cmath>

namespace burnish::adapters {

at::Tensor Fresh::normal(int64_t rows, int64_t columns, double deviation) {
  if (!generator.defined()) return zeros(rows, columns);
  return at::empty({rows, columns}, at::kFloat).normal_(0, deviation, generator);
}

at::Tensor Fresh::kaiming(int64_t rows, int64_t columns) {
  if (!generator.defined()) return zeros(rows, columns);
  auto bound = 1.0 / std::sqrt(static_cast<double>(columns));
  return at::empty({rows, columns}, at::kFloat).uniform_(-bound, bound, generator);
}

at::Tensor Fresh::zeros(int64_t rows, int64_t columns) const {
  return generator.defined() ? at::zeros({rows, columns}, at::kFloat) : at::zeros({}, at::kFloat).expand({rows, columns});
}

}  // namespace burnish::adapters
