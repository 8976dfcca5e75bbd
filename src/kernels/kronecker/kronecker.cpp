#include "kernels/kronecker/kronecker.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

/// [N, A·B, ...] as [N·A, B, ...], N being all batch dimensions.
at::Tensor in_groups(const at::Tensor& x, int64_t num_groups, int64_t channel_dim) {
  return x.flatten(0, channel_dim - 1).unflatten(1, {num_groups, -1}).flatten(0, 1);
}

/// [N·A, ...] as [A, N·...].
at::Tensor by_group(const at::Tensor& x, int64_t num_groups) {
  return x.reshape({-1, num_groups, x[0].numel()}).transpose(0, 1).flatten(1);
}

struct AddKronecker : torch::autograd::Function<AddKronecker> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1,
                            const at::Tensor& w2, double scale, const ProductPtr& product) {
    ctx->save_for_backward({x, w1, w2});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["product"] = Product::keep(product);
    auto wide = product_dtype(x);
    auto t = product->forward(in_groups(x, w1.size(1), product->channel_dim()).to(wide), w2.to(wide));
    auto y_NLK = at::matmul(w1.to(wide) * scale, t.reshape({-1, w1.size(1), t[0].numel()}));
    return base + y_NLK.to(base.scalar_type()).view(base.sizes());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    auto scale = ctx->saved_data["scale"].toDouble();
    auto product = Product::kept(ctx->saved_data["product"]);
    auto dim = product->channel_dim();
    auto wide = product_dtype(x);
    auto w1 = saved[1].to(wide), w2 = saved[2].to(wide);
    auto x_groups = in_groups(x, w1.size(1), dim).to(wide);
    auto dy = in_groups(grads[0], w1.size(0), dim).to(wide) * scale;
    auto t_sizes = dy.sizes().vec();
    t_sizes[0] = x_groups.size(0);
    auto dt = at::matmul(w1.t(), dy.reshape({-1, w1.size(0), dy[0].numel()})).view(t_sizes);
    at::Tensor dx, dw1, dw2;
    if (ctx->needs_input_grad(1)) dx = product->input_gradient(dt, w2, x_groups.sizes()).to(x.scalar_type()).view(x.sizes());
    if (ctx->needs_input_grad(2)) {
      auto t = product->forward(x_groups, w2);
      dw1 = at::mm(by_group(dy, w1.size(0)), by_group(t, w1.size(1)).t()).to(saved[1].scalar_type());
    }
    if (ctx->needs_input_grad(3)) dw2 = product->weight_gradient(dt, x_groups).to(saved[2].scalar_type());
    return {grads[0], dx, dw1, dw2, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor add_kronecker(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w1, const at::Tensor& w2, double scale,
                         const ProductPtr& product) {
  return AddKronecker::apply(base, x, w1, w2, scale, product);
}

}  // namespace burnish::kernels
