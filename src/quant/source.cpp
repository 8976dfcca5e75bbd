#include "quant/source.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/linear/linear.h"
#include "kernels/place.h"
#include "kernels/rotate/rotate.h"
#include "kernels/tiled_product/tiled_product.h"
#include "kernels/unpack/few_rows.h"

namespace burnish::quant {

namespace {

using Held = std::shared_ptr<const QuantizedSource>;

struct Capsule : torch::CustomClassHolder {
  explicit Capsule(Held source) : source(std::move(source)) {}
  Held source;
};

struct Multiply : torch::autograd::Function<Multiply> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const std::optional<at::Tensor>& bias,
                            const std::optional<at::Tensor>& leaf, const Held& source, const kernels::ProductPtr& product) {
    bool trains = leaf && leaf->requires_grad();
    ctx->save_for_backward({trains ? x : at::Tensor()});
    ctx->saved_data["source"] = c10::IValue::make_capsule(c10::make_intrusive<Capsule>(source));
    ctx->saved_data["product"] = kernels::Product::keep(product);
    ctx->saved_data["shape"] = x.sizes().vec();
    ctx->saved_data["bias"] = bias.has_value();
    ctx->saved_data["trains"] = trains;
    return source->forward(*product, x, bias.value_or(at::Tensor()));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto source = c10::static_intrusive_pointer_cast<Capsule>(ctx->saved_data["source"].toCapsule())->source;
    auto product = kernels::Product::kept(ctx->saved_data["product"]);
    at::Tensor dx, db, dw;
    if (ctx->needs_input_grad(0)) dx = source->input_gradient(*product, grads[0], ctx->saved_data["shape"].toIntVector());
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(1)) db = kernels::sum_to_channels(grads[0], product->channel_dim());
    if (ctx->saved_data["trains"].toBool()) {
      auto wide = kernels::product_dtype(grads[0]);
      auto leaf = source->gradient_leaf();
      dw = product->weight_gradient(grads[0].to(wide), ctx->get_saved_variables()[0].to(wide)).view(leaf.sizes()).to(leaf.scalar_type());
    }
    return {dx, db, dw, at::Tensor(), at::Tensor()};
  }
};
/// Of a tile, beyond which its product gains nothing.
constexpr int64_t kMostRows = 1024;

bool is_matrix(const kernels::Product& product) { return product.channel_dim() == -1 && product.columns_per_channel() == 1; }

std::optional<at::Tensor> optional(const at::Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

}  // namespace

at::Tensor rows_of(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }

bool has_few_rows(const at::Tensor& x) { return x.numel() <= kernels::kFewRows * x.size(-1); }

at::Tensor QuantizedSource::multiply(const kernels::ProductPtr& product, const at::Tensor& x, const at::Tensor& bias) const {
  return Multiply::apply(x, optional(bias), optional(leaf_), shared_from_this(), product);
}

void QuantizedSource::train(at::IntArrayRef sizes, c10::ScalarType gradient_dtype) {
  leaf_ = at::zeros({}, weight_.scales.options().dtype(gradient_dtype)).expand(sizes);
}

int64_t QuantizedSource::rows_of_tile(int64_t num_inputs) const {
  const auto as_large = std::min(num_inputs / std::max<int64_t>(1, weight_.in), kMostRows) / 128 * 128;
  return std::max(nn::tile_rows(weight_.in, device()), as_large);
}

void QuantizedSource::for_each_tile(int64_t num_inputs, const std::function<void(int64_t begin, int64_t end)>& fn) const {
  const auto step = rows_of_tile(num_inputs);
  for (int64_t begin = 0; begin < weight_.out; begin += step) fn(begin, std::min(begin + step, weight_.out));
}

std::optional<kernels::CodedMatrix> QuantizedSource::in_tiles(const kernels::Product& product, const at::Tensor& x) const {
  if (!is_matrix(product) || !kernels::runs_on_cpu(weight_.codes)) return std::nullopt;
  kernels::CodedMatrix matrix{
      weight_.codes, weight_.format.codes, scales_of_rows(weight_, 0, weight_.out), group_size(weight_.format, weight_.in),
      weight_.in,    weight_.rotation};
  return kernels::multiplies_tiles(x, matrix) ? std::optional(std::move(matrix)) : std::nullopt;
}

at::Tensor QuantizedSource::forward_few(const at::Tensor& x, const at::Tensor& bias) const {
  auto x_MI = x.reshape({-1, weight_.in}).to(at::kFloat);
  if (weight_.rotation > 0) {  // instead of every row of the weight; a rotation is its own inverse
    x_MI = x_MI.clone();
    kernels::rotate_(x_MI, weight_.rotation);
  }
  auto y_MN = kernels::multiply_few(x_MI, weight_.codes, weight_.format.codes, scales_of_rows(weight_, 0, weight_.out),
                                    group_size(weight_.format, weight_.in));
  if (bias.defined()) y_MN.add_(bias);
  auto sizes = x.sizes().vec();
  sizes.back() = weight_.out;
  return y_MN.to(x.scalar_type()).view(sizes);
}

at::Tensor QuantizedSource::forward(const kernels::Product& product, const at::Tensor& x_given, const at::Tensor& bias) const {
  if (is_matrix(product) && kernels::multiplies_few(x_given, weight_.codes, weight_.format.codes)) return forward_few(x_given, bias);
  if (const auto matrix = in_tiles(product, x_given)) {
    auto sizes = x_given.sizes().vec();
    sizes.back() = weight_.out;
    auto y = at::empty(sizes, x_given.options().requires_grad(false));
    kernels::multiply_tiles_(rows_of(y), x_given.flatten(0, -2), *matrix, bias, /*adds=*/false);
    return y;
  }
  auto wide = kernels::product_dtype(x_given);
  auto x = x_given.to(wide);
  auto tile = [&](int64_t begin, int64_t end) {
    auto offset = bias.defined() ? bias.narrow(0, begin, end - begin).to(wide) : at::Tensor();
    return product.forward(x, dequantize_rows(weight_, begin, end, wide), offset);
  };
  if (rows_of_tile(x.numel()) >= weight_.out) return tile(0, weight_.out).to(x_given.scalar_type());
  at::Tensor y;
  const auto dim = product.channel_dim();
  for_each_tile(x.numel(), [&](int64_t begin, int64_t end) {
    auto part = tile(begin, end);
    if (!y.defined()) {
      auto sizes = part.sizes().vec();
      sizes[static_cast<size_t>(part.dim() + dim)] = weight_.out;
      y = at::empty(sizes, x_given.options().requires_grad(false));
    }
    y.narrow(dim, begin, end - begin).copy_(part);
  });
  return y;
}

at::Tensor QuantizedSource::input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const {
  if (const auto matrix = in_tiles(product, dy)) {
    auto dx = at::empty(x_sizes, dy.options().requires_grad(false));
    kernels::multiply_tiles_transposed_(rows_of(dx), dy.flatten(0, -2), *matrix, /*adds=*/false);
    return dx;
  }
  auto wide = kernels::product_dtype(dy);
  const auto num_inputs = c10::multiply_integers(x_sizes);
  if (rows_of_tile(num_inputs) >= weight_.out)
    return product.input_gradient(dy.to(wide), dequantize_rows(weight_, 0, weight_.out, wide), x_sizes).to(dy.scalar_type());
  // Partial sums are added in fp32 or better, so that the result does not depend on how many tiles there are.
  auto exact = wide == at::kDouble ? at::kDouble : at::kFloat;
  auto dx = at::zeros(x_sizes, dy.options().dtype(exact).requires_grad(false));
  for_each_tile(num_inputs, [&](int64_t begin, int64_t end) {
    auto part = dy.narrow(product.channel_dim(), begin, end - begin).to(wide);
    dx.add_(product.input_gradient(part, dequantize_rows(weight_, begin, end, wide), x_sizes));
  });
  return dx.to(dy.scalar_type());
}

bool QuantizedSource::adds(const kernels::Product& product, const at::Tensor& operand) const {
  return product.adds() && kernels::product_dtype(operand) == operand.scalar_type();
}

void QuantizedSource::add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const {
  const auto matrix = sum.scalar_type() == x.scalar_type() ? in_tiles(product, x) : std::nullopt;
  if (matrix) return kernels::multiply_tiles_(rows_of(sum), x.flatten(0, -2), *matrix, {}, /*adds=*/true);
  for_each_tile(x.numel(), [&](int64_t begin, int64_t end) {
    auto part = sum.narrow(product.channel_dim(), begin, end - begin);
    product.add_(part, x, dequantize_rows(weight_, begin, end, x.scalar_type()), 1);
  });
}

void QuantizedSource::add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const {
  const auto matrix = sum.scalar_type() == dy.scalar_type() ? in_tiles(product, dy) : std::nullopt;
  if (matrix) return kernels::multiply_tiles_transposed_(rows_of(sum), dy.flatten(0, -2), *matrix, /*adds=*/true);
  const bool is_rounded = at::isReducedFloatingType(sum.scalar_type());
  if (!adds(product, dy) || (is_rounded && rows_of_tile(sum.numel()) < weight_.out))
    return WeightSource::add_input_gradient_(product, sum, dy);
  for_each_tile(sum.numel(), [&](int64_t begin, int64_t end) {
    auto part = dy.narrow(product.channel_dim(), begin, end - begin);
    product.add_input_gradient_(sum, part, dequantize_rows(weight_, begin, end, dy.scalar_type()));
  });
}

}  // namespace burnish::quant
