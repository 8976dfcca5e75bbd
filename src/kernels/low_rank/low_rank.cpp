#include "kernels/low_rank/low_rank.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

/// Saves x and the rank-wide h = x Aᵀ; the output-sized product is added to `base` in the multiplication itself.
struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& a,
                            const at::Tensor& b, double scale, const ProductPtr& product) {
    auto wide = product_dtype(x);
    auto h = product->forward(x.to(wide), a.to(wide));
    ctx->save_for_backward({x, h, a, b});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["product"] = Product::keep(product);
    return product->pointwise()->add(base.to(wide), h, b.to(wide), scale).to(base.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &h = saved[1], &a = saved[2], &b = saved[3];
    auto scale = ctx->saved_data["scale"].toDouble();
    auto product = Product::kept(ctx->saved_data["product"]), pointwise = product->pointwise();
    auto wide = product_dtype(x);
    auto dy = grads[0].to(wide);
    auto dh = pointwise->input_gradient(dy, b.to(wide), h.sizes()) * scale;
    at::Tensor dx, da, db;
    if (ctx->needs_input_grad(1)) dx = product->input_gradient(dh, a.to(wide), x.sizes()).to(x.scalar_type());
    if (ctx->needs_input_grad(2)) da = product->weight_gradient(dh, x.to(wide)).to(a.scalar_type());
    if (ctx->needs_input_grad(3)) db = (pointwise->weight_gradient(dy, h) * scale).to(b.scalar_type());
    return {grads[0], dx, da, db, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                        const ProductPtr& product) {
  return AddLowRank::apply(base, x, a, b, scale, product);
}

}  // namespace burnish::kernels
