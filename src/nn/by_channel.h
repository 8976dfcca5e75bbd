#pragma once
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>

#include "nn/module.h"

namespace burnish::nn {

/// A convolution of each channel by itself, whose window is a square of an odd side. [B, C, H, W] -> [B, C, H, W].
struct ByChannel : Module {
  ByChannel(int64_t channels, int64_t kernel, const at::TensorOptions& options)
      : weight(at::empty({channels, 1, kernel, kernel}, options)), bias(at::empty({channels}, options)) {
    own("weight", weight);
    own("bias", bias);
  }
  at::Tensor forward(const at::Tensor& x_BCHW) const {
    const auto reach = weight.size(2) / 2;
    return at::conv2d(x_BCHW, weight, bias, {1, 1}, {reach, reach}, {1, 1}, weight.size(0));
  }
  at::Tensor weight, bias;
};

}  // namespace burnish::nn
