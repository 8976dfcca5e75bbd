#include "models/blocks/scaled_norm.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"

namespace burnish::models {

nn::Compute scaled_norm_by(double eps) {
  return [eps](const nn::Tensors& in) {
    auto normed = at::rms_norm(in[0], in[1].sizes(), in[1], eps);
    return nn::Tensors{in.size() > 2 ? normed * (in[2] + 1).unsqueeze(1) : normed};
  };
}

at::Tensor with_normed(const at::Tensor& x_BLD, const at::Tensor& y_BLD, const at::Tensor& weight, double eps, const at::Tensor& gate_BD) {
  return nn::recomputed({y_BLD, weight}, scaled_norm_by(eps), [&](const nn::Tensors& normed) {
    return nn::Tensors{gate_BD.defined() ? kernels::gated_residual(x_BLD, at::tanh(gate_BD), normed[0]) : x_BLD + normed[0]};
  })[0];
}

}  // namespace burnish::models
