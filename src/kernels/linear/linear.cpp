#include "kernels/linear/linear.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

namespace burnish::kernels {

namespace {

/// Whether this CPU multiplies bf16 in hardware.
bool cpu_has_bf16() {
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has;
}

/// bf16 in, bf16 out, fp32 inside: saves the bf16 operands only.
struct LinearAsFp32 : torch::autograd::Function<LinearAsFp32> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias) {
    ctx->save_for_backward({x, weight});
    ctx->saved_data["bias"] = bias.has_value() && bias->defined();
    std::optional<at::Tensor> bias_fp32;
    if (bias && bias->defined()) bias_fp32 = bias->to(at::kFloat);
    return at::linear(x.to(at::kFloat), weight.to(at::kFloat), bias_fp32).to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &weight = saved[1];
    auto dy_NO = grads[0].flatten(0, -2).to(at::kFloat);
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) dx = at::mm(dy_NO, weight.to(at::kFloat)).to(x.scalar_type()).view(x.sizes());
    if (ctx->needs_input_grad(1)) dw = at::mm(dy_NO.t(), x.flatten(0, -2).to(at::kFloat)).to(weight.scalar_type());
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2)) db = dy_NO.sum(0).to(weight.scalar_type());
    return {dx, dw, db};
  }
};

}  // namespace

at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  std::optional<at::Tensor> b;
  if (bias.defined()) b = bias;
  if (x.is_cpu() && x.scalar_type() == at::kBFloat16 && !cpu_has_bf16()) return LinearAsFp32::apply(x, weight, b);
  return at::linear(x, weight, b);
}

c10::ScalarType product_dtype(const at::Tensor& x) {
  if (!x.is_cpu() || (x.scalar_type() != at::kHalf && x.scalar_type() != at::kBFloat16)) return x.scalar_type();
  return x.scalar_type() == at::kBFloat16 && cpu_has_bf16() ? at::kBFloat16 : at::kFloat;
}

}  // namespace burnish::kernels
