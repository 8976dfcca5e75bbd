#include "kernels/hadamard_low_rank/hadamard_low_rank.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/linear/linear.h"
#include "kernels/place.h"

namespace burnish::kernels {

namespace {

template <class Fn>
void for_each_tile(int64_t out, int64_t in, bool cpu, Fn fn) {
  const int64_t step = std::max<int64_t>(1, (cpu ? int64_t{1} << 20 : int64_t{1} << 24) / std::max<int64_t>(1, in));
  for (int64_t begin = 0; begin < out; begin += step) fn(begin, std::min(step, out - begin));
}

struct AddHadamard : torch::autograd::Function<AddHadamard> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& p1,
                            const at::Tensor& q1, const at::Tensor& p2, const at::Tensor& q2, double scale, const ProductPtr& product) {
    ctx->save_for_backward({x, p1, q1, p2, q2});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["product"] = Product::keep(product);
    auto wide = product_dtype(x);
    auto x_wide = x.to(wide);
    auto y = base.clone();
    for_each_tile(p1.size(0), q1.size(1), runs_on_cpu(x), [&](int64_t begin, int64_t count) {
      auto d = at::mm(p1.narrow(0, begin, count), q1).mul_(at::mm(p2.narrow(0, begin, count), q2)).mul_(scale).to(wide);
      y.narrow(product->channel_dim(), begin, count).add_(product->forward(x_wide, d));
    });
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &p1 = saved[1], &q1 = saved[2], &p2 = saved[3], &q2 = saved[4];
    auto scale = ctx->saved_data["scale"].toDouble();
    auto wide = product_dtype(x);
    auto exact = p1.scalar_type();
    auto product = Product::kept(ctx->saved_data["product"]);
    auto x_wide = x.to(wide), dy_wide = grads[0].to(wide);
    auto dx = at::zeros(x.sizes(), x.options().dtype(wide == at::kDouble ? at::kDouble : at::kFloat));
    auto dp1 = at::zeros_like(p1), dq1 = at::zeros_like(q1), dp2 = at::zeros_like(p2), dq2 = at::zeros_like(q2);
    for_each_tile(p1.size(0), q1.size(1), runs_on_cpu(x), [&](int64_t begin, int64_t count) {
      auto rows1 = p1.narrow(0, begin, count), rows2 = p2.narrow(0, begin, count);
      auto d1 = at::mm(rows1, q1), d2 = at::mm(rows2, q2);
      auto dy = dy_wide.narrow(product->channel_dim(), begin, count);
      dx.add_(product->input_gradient(dy, (d1 * d2 * scale).to(wide), x.sizes()));
      auto gradient = product->weight_gradient(dy, x_wide).to(exact) * scale;
      auto g1 = gradient * d2, g2 = gradient * d1;
      dp1.narrow(0, begin, count).copy_(at::mm(g1, q1.t()));
      dp2.narrow(0, begin, count).copy_(at::mm(g2, q2.t()));
      dq1.addmm_(rows1.t(), g1);
      dq2.addmm_(rows2.t(), g2);
    });
    return {grads[0], dx.to(x.scalar_type()), dp1, dq1, dp2, dq2, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor add_hadamard_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& p1, const at::Tensor& q1,
                                 const at::Tensor& p2, const at::Tensor& q2, double scale, const ProductPtr& product) {
  return AddHadamard::apply(base, x, p1, q1, p2, q2, scale, product);
}

}  // namespace burnish::kernels
