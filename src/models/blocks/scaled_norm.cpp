#include "models/blocks/scaled_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"

namespace burnish::models {

nn::Compute scaled_norm_by(double eps, bool is_scaled) {
  return [=](const nn::Tensors& in) {
    nn::Tensors all;
    for (size_t i = 1; i < in.size(); i += is_scaled ? 2 : 1) {
      auto normed = at::rms_norm(in[i], in[0].sizes(), in[0], eps);
      all.push_back(is_scaled ? normed * (in[i + 1] + 1).unsqueeze(1) : normed);
    }
    return nn::Tensors{all.size() == 1 ? all[0] : at::cat(all, 1)};
  };
}

at::Tensor with_normed(const at::Tensor& x_BLD, const at::Tensor& y_BLD, const nn::RMSNorm& norm, const at::Tensor& gate_BD) {
  return nn::recomputed({norm.weight, y_BLD}, scaled_norm_by(norm.eps(), false), [&](const nn::Tensors& normed) {
    return nn::Tensors{gate_BD.defined() ? kernels::gated_residual(x_BLD, at::tanh(gate_BD), normed[0]) : x_BLD + normed[0]};
  })[0];
}

}  // namespace burnish::models
