#include "nn/linear.h"

#include <ATen/ops/empty.h>

#include "kernels/linear/linear.h"

namespace burnish::nn {

Linear::Linear(int64_t in_features, int64_t out_features, const at::TensorOptions& options, bool with_bias)
    : weight(at::empty({out_features, in_features}, options)) {
  own("weight", weight);
  if (with_bias) {
    bias = at::empty({out_features}, options);
    own("bias", bias);
  }
}

at::Tensor Linear::forward(const at::Tensor& x) const {
  auto y = kernels::linear(x, weight, bias);
  return delta ? delta->forward(*this, x, y) : y;
}

}  // namespace burnish::nn
