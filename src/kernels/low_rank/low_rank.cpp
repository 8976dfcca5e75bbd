#include "kernels/low_rank/low_rank.h"

#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

using torch::autograd::AutogradContext;

/// What either function keeps, and what backward makes of it; dy and dh are in `wide`.
struct Kept {
  at::Tensor x, h, a, b;
  double scale;
  ProductPtr product;
  c10::ScalarType wide = product_dtype(x);  ///< that operands are multiplied in

  static void save(AutogradContext* ctx, const Kept& kept) {
    ctx->save_for_backward({kept.x, kept.h, kept.a, kept.b});
    ctx->saved_data["scale"] = kept.scale;
    ctx->saved_data["product"] = Product::keep(kept.product);
  }
  static Kept of(AutogradContext* ctx) {
    auto saved = ctx->get_saved_variables();
    return {saved[0], saved[1], saved[2], saved[3], ctx->saved_data["scale"].toDouble(), Product::kept(ctx->saved_data["product"])};
  }

  at::Tensor gradient_of_h(const at::Tensor& dy) const {
    return product->pointwise()->input_gradient(dy, b.to(wide), h.sizes()).mul_(scale);
  }
  at::Tensor gradient_of_a(const at::Tensor& dh) const { return product->weight_gradient(dh, x.to(wide)).to(a.scalar_type()); }
  at::Tensor gradient_of_b(const at::Tensor& dy) const {
    return product->pointwise()->weight_gradient(dy, h).mul_(scale).to(b.scalar_type());
  }
};

/// Saves x and the rank-wide h = x Aᵀ; the output-sized product is added to `base` in the multiplication itself.
struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& a,
                            const at::Tensor& b, double scale, const ProductPtr& product) {
    auto wide = product_dtype(x);
    auto h = product->forward(x.to(wide), a.to(wide));
    Kept::save(ctx, {x, h, a, b, scale, product});
    return product->pointwise()->add(base.to(wide), h, b.to(wide), scale).to(base.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto kept = Kept::of(ctx);
    auto dy = grads[0].to(kept.wide);
    auto dh = kept.gradient_of_h(dy);
    at::Tensor dx, da, db;
    if (ctx->needs_input_grad(1)) dx = kept.product->input_gradient(dh, kept.a.to(kept.wide), kept.x.sizes()).to(kept.x.scalar_type());
    if (ctx->needs_input_grad(2)) da = kept.gradient_of_a(dh);
    if (ctx->needs_input_grad(3)) db = kept.gradient_of_b(dy);
    return {grads[0], dx, da, db, at::Tensor(), at::Tensor()};
  }
};

struct Capsule : torch::CustomClassHolder {
  explicit Capsule(std::shared_ptr<const Multiplier> weight) : weight(std::move(weight)) {}
  std::shared_ptr<const Multiplier> weight;
};

/// Saves what AddLowRank saves. Operands that are widened to be multiplied are added where they are wide.
struct LowRankLinear : torch::autograd::Function<LowRankLinear> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b,
                            const std::optional<at::Tensor>& bias, double scale, std::shared_ptr<const Multiplier> weight,
                            const ProductPtr& product) {
    auto wide = product_dtype(x);
    auto y = weight->forward(*product, x, bias.value_or(at::Tensor())).to(wide);
    auto h = product->forward(x.to(wide), a.to(wide));
    product->pointwise()->add_(y, h, b.to(wide), scale);
    Kept::save(ctx, {x, h, a, b, scale, product});
    ctx->saved_data["weight"] = c10::IValue::make_capsule(c10::make_intrusive<Capsule>(std::move(weight)));
    return y.to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto kept = Kept::of(ctx);
    auto dy = grads[0].to(kept.wide);
    auto dh = kept.gradient_of_h(dy);
    at::Tensor dx, da, db;
    if (ctx->needs_input_grad(0)) {
      auto weight = c10::static_intrusive_pointer_cast<Capsule>(ctx->saved_data["weight"].toCapsule())->weight;
      auto sum = weight->input_gradient(*kept.product, grads[0], kept.x.sizes()).to(kept.wide);
      kept.product->add_input_gradient_(sum, dh, kept.a.to(kept.wide));
      dx = sum.to(kept.x.scalar_type());
    }
    if (ctx->needs_input_grad(1)) da = kept.gradient_of_a(dh);
    if (ctx->needs_input_grad(2)) db = kept.gradient_of_b(dy);
    return {dx, da, db, at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor low_rank_linear(std::shared_ptr<const Multiplier> weight, const at::Tensor& bias, const at::Tensor& x, const at::Tensor& a,
                           const at::Tensor& b, double scale, const ProductPtr& product) {
  auto offset = bias.defined() ? std::optional(bias) : std::nullopt;
  return LowRankLinear::apply(x, a, b, offset, scale, std::move(weight), product);
}

at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                        const ProductPtr& product) {
  return AddLowRank::apply(base, x, a, b, scale, product);
}

}  // namespace burnish::kernels
