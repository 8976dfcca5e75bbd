#include "nn/modulation_in_fp32.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "nn/by_tokens.h"

namespace burnish::nn {

namespace {

/// x + gate · y in the gate's dtype, for a gate that needs no gradient: backward reads neither x nor y.
struct AddGated : torch::autograd::Function<AddGated> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gate, const at::Tensor& y) {
    ctx->save_for_backward({gate});
    const at::NoGradGuard no_grad;
    return by_tokens({{x}, {gate, kShared}, {y}}, 1, tokens_of_one_piece(x), in_dtype_of_gate);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto of_y = by_tokens({{grads[0]}, {ctx->get_saved_variables()[0], kShared}}, 1, tokens_of_one_piece(grads[0]),
                          [](const auto& in) { return (in[0].to(in[1].scalar_type()) * in[1].unsqueeze(1)).to(in[0].scalar_type()); });
    return {grads[0], at::Tensor(), of_y};
  }
  static at::Tensor in_dtype_of_gate(const Tensors& in) {
    auto dtype = in[1].scalar_type();
    return kernels::gated_residual(in[0].to(dtype), in[1], in[2].to(dtype)).to(in[0].scalar_type());
  }
};

}  // namespace

at::Tensor modulated(const at::Tensor& x_BLD, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps) {
  if (x_BLD.scalar_type() == scale_BD.scalar_type()) return kernels::modulated_norm(x_BLD, scale_BD, shift_BD, eps);
  return by_tokens({{x_BLD}, {scale_BD, kShared}, {shift_BD, kShared}}, 1, tokens_of_one_piece(x_BLD), [eps](const Tensors& in) {
    return kernels::modulated_norm(in[0].to(in[1].scalar_type()), in[1], in[2], eps).to(in[0].scalar_type());
  });
}

Compute modulated_runs(double eps) {
  return [eps](const Tensors& in) {
    Tensors runs;
    for (size_t i = 0; i < in.size(); i += 3) runs.push_back(modulated(in[i], in[i + 1], in[i + 2], eps));
    return Tensors{runs.size() == 1 ? runs[0] : at::cat(runs, 1)};
  };
}

at::Tensor gated(const at::Tensor& x_BLD, const at::Tensor& gate_BD, const at::Tensor& y_BLD) {
  if (x_BLD.scalar_type() == gate_BD.scalar_type()) return kernels::gated_residual(x_BLD, gate_BD, y_BLD);
  if (!gate_BD.requires_grad()) return AddGated::apply(x_BLD, gate_BD, y_BLD);
  return by_tokens({{x_BLD}, {gate_BD, kShared}, {y_BLD}}, 1, tokens_of_one_piece(x_BLD), AddGated::in_dtype_of_gate);
}

}  // namespace burnish::nn
