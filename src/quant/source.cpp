#include "quant/source.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/linear/linear.h"

namespace burnish::quant {

namespace {

using Held = std::shared_ptr<const QuantizedSource>;

struct Capsule : torch::CustomClassHolder {
  explicit Capsule(Held source) : source(std::move(source)) {}
  Held source;
};

struct Multiply : torch::autograd::Function<Multiply> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& bias,
                            const Held& source) {
    ctx->saved_data["source"] = c10::IValue::make_capsule(c10::make_intrusive<Capsule>(source));
    ctx->saved_data["shape"] = x.sizes().vec();
    ctx->saved_data["bias"] = bias.has_value();
    auto shape = x.sizes().vec();
    shape.back() = source->out_features();
    return source->forward(x.flatten(0, -2), bias.value_or(at::Tensor())).view(shape);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto source = c10::static_intrusive_pointer_cast<Capsule>(ctx->saved_data["source"].toCapsule())->source;
    auto dy_NO = grads[0].flatten(0, -2);
    at::Tensor dx, db;
    if (ctx->needs_input_grad(0)) dx = source->input_gradient(dy_NO).view(ctx->saved_data["shape"].toIntVector());
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(1)) db = dy_NO.sum(0);
    return {dx, db, at::Tensor()};
  }
};

std::optional<at::Tensor> optional(const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

}  // namespace

at::Tensor QuantizedSource::multiply(const at::Tensor& x, const at::Tensor& bias) const {
  return Multiply::apply(x, optional(bias), shared_from_this());
}

at::Tensor QuantizedSource::multiply_transposed(const at::Tensor& dy) const {
  at::NoGradGuard no_grad;
  auto shape = dy.sizes().vec();
  shape.back() = weight_.in;
  return input_gradient(dy.flatten(0, -2)).view(shape);
}

at::Tensor QuantizedSource::forward(const at::Tensor& x_NI, const at::Tensor& bias) const {
  auto wide = kernels::product_dtype(x_NI);
  auto x = x_NI.to(wide);
  auto y = at::empty({x.size(0), weight_.out}, x_NI.options().requires_grad(false));
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    auto offset = bias.defined() ? std::optional(bias.narrow(0, begin, end - begin).to(wide)) : std::nullopt;
    y.narrow(1, begin, end - begin).copy_(at::linear(x, dequantize_rows(weight_, begin, end, wide), offset));
  });
  return y;
}

at::Tensor QuantizedSource::input_gradient(const at::Tensor& dy_NO) const {
  auto wide = kernels::product_dtype(dy_NO);
  if (nn::tile_rows(*this) >= weight_.out)
    return at::mm(dy_NO.to(wide), dequantize_rows(weight_, 0, weight_.out, wide)).to(dy_NO.scalar_type());
  // Partial sums are added in fp32 or better, so that the result does not depend on how many tiles there are.
  auto exact = wide == at::kDouble ? at::kDouble : at::kFloat;
  auto dx = at::zeros({dy_NO.size(0), weight_.in}, dy_NO.options().dtype(exact).requires_grad(false));
  nn::for_each_tile(*this, [&](int64_t begin, int64_t end) {
    dx.add_(at::mm(dy_NO.narrow(1, begin, end - begin).to(wide), dequantize_rows(weight_, begin, end, wide)));
  });
  return dx.to(dy_NO.scalar_type());
}

void QuantizedSource::rewrite(const Rows& new_rows) {
  weight_ = quantize(new_rows, weight_.out, weight_.in, weight_.format, device(), "a rewritten weight");
}

}  // namespace burnish::quant
