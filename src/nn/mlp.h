#pragma once
#include <ATen/ops/gelu.h>

#include "nn/linear.h"

namespace burnish::nn {

/// Two layers with a GELU between them, [..., C] -> [..., C].
struct Mlp : Module {
  Mlp(int64_t width, int64_t hidden, const at::TensorOptions& options) : fc1(width, hidden, options), fc2(hidden, width, options) {
    own("fc1", fc1);
    own("fc2", fc2);
  }
  at::Tensor forward(const at::Tensor& x) const { return fc2.forward(at::gelu(fc1.forward(x))); }
  Linear fc1, fc2;
};

}  // namespace burnish::nn
