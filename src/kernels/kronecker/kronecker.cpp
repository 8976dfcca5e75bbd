#include "kernels/kronecker/kronecker.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

/// x as [N, M, Q] times W2ᵀ -> [N, M, K].
at::Tensor times_second(const at::Tensor& x_NMQ, const at::Tensor& w2_KQ) {
  return at::mm(x_NMQ.flatten(0, 1), w2_KQ.t()).view({x_NMQ.size(0), x_NMQ.size(1), w2_KQ.size(0)});
}

/// [N, A, K] -> [A, N·K].
at::Tensor by_first_factor(const at::Tensor& x_NAK) { return x_NAK.transpose(0, 1).flatten(1); }

struct AddKronecker : torch::autograd::Function<AddKronecker> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1,
                            const at::Tensor& w2, double scale) {
    ctx->save_for_backward({x, w1, w2});
    ctx->saved_data["scale"] = scale;
    auto wide = product_dtype(x);
    auto x_NMQ = x.reshape({-1, w1.size(1), w2.size(1)}).to(wide);
    auto y_NLK = at::matmul(w1.to(wide) * scale, times_second(x_NMQ, w2.to(wide)));
    return base + y_NLK.to(base.scalar_type()).view(base.sizes());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    auto scale = ctx->saved_data["scale"].toDouble();
    auto wide = product_dtype(x);
    auto w1 = saved[1].to(wide), w2 = saved[2].to(wide);
    auto x_NMQ = x.reshape({-1, w1.size(1), w2.size(1)}).to(wide);
    auto dy_NLK = grads[0].reshape({-1, w1.size(0), w2.size(0)}).to(wide) * scale;
    auto dt_NMK = at::matmul(w1.t(), dy_NLK);
    at::Tensor dx, dw1, dw2;
    if (ctx->needs_input_grad(1)) dx = at::mm(dt_NMK.flatten(0, 1), w2).to(x.scalar_type()).view(x.sizes());
    if (ctx->needs_input_grad(2))
      dw1 = at::mm(by_first_factor(dy_NLK), by_first_factor(times_second(x_NMQ, w2)).t()).to(saved[1].scalar_type());
    if (ctx->needs_input_grad(3)) dw2 = at::mm(dt_NMK.flatten(0, 1).t(), x_NMQ.flatten(0, 1)).to(saved[2].scalar_type());
    return {grads[0], dx, dw1, dw2, at::Tensor()};
  }
};

}  // namespace

at::Tensor add_kronecker(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2, double scale) {
  return AddKronecker::apply(base, x, w1, w2, scale);
}

}  // namespace burnish::kernels
