#include "kernels/low_rank/low_rank.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

/// Saves x and the rank-wide h = x Aᵀ; the output-sized product is added to `base` in the multiplication itself.
struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& a,
                            const at::Tensor& b, double scale) {
    auto wide = product_dtype(x);
    auto h_NR = at::mm(x.flatten(0, -2).to(wide), a.to(wide).t());
    ctx->save_for_backward({x, h_NR, a, b});
    ctx->saved_data["scale"] = scale;
    return at::addmm(base.flatten(0, -2).to(wide), h_NR, b.to(wide).t(), 1, scale).to(base.scalar_type()).view(base.sizes());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &h_NR = saved[1], &a = saved[2], &b = saved[3];
    auto scale = ctx->saved_data["scale"].toDouble();
    auto wide = product_dtype(x);
    auto dy_NO = grads[0].flatten(0, -2).to(wide);
    auto dh_NR = at::mm(dy_NO, b.to(wide)) * scale;
    at::Tensor dx, da, db;
    if (ctx->needs_input_grad(1)) dx = at::mm(dh_NR, a.to(wide)).to(x.scalar_type()).view(x.sizes());
    if (ctx->needs_input_grad(2)) da = at::mm(dh_NR.t(), x.flatten(0, -2).to(wide)).to(a.scalar_type());
    if (ctx->needs_input_grad(3)) db = (at::mm(dy_NO.t(), h_NR) * scale).to(b.scalar_type());
    return {grads[0], dx, da, db, at::Tensor()};
  }
};

}  // namespace

at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale) {
  return AddLowRank::apply(base, x, a, b, scale);
}

}  // namespace burnish::kernels
