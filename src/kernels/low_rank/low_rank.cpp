#include "kernels/low_rank/low_rank.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <algorithm>
#include <utility>

#include "kernels/linear/linear.h"
#include "kernels/low_rank/gpu.h"
#include "kernels/quantize_rows/quantize_rows.h"

namespace burnish::kernels {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The gradients {dh, dB} of scale · h Bᵀ by dy, dB in that of B; dy, h and dh have one dtype.
std::pair<at::Tensor, at::Tensor> factor_gradients(const Product& product, const at::Tensor& dy, const at::Tensor& h, const at::Tensor& b,
                                                   double scale) {
  const auto b_same = b.to(dy.scalar_type());
  if (product.channel_dim() == -1 && factor_gradients_fit_gpu(dy, b_same, h))
    return factor_gradients_gpu(dy, b_same, h, scale, b.scalar_type());
  const auto pointwise = product.pointwise();
  return {pointwise->input_gradient(dy, b_same, h.sizes()).mul_(scale), pointwise->weight_gradient(dy, h).mul_(scale).to(b.scalar_type())};
}

/// Saves x and the rank-wide h = x Aᵀ; the output-sized product is added to `base` in the multiplication itself.
struct AddLowRank : torch::autograd::Function<AddLowRank> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b,
                            double scale, const ProductPtr& product) {
    auto wide = product_dtype(x);
    auto h = product->forward(x.to(wide), a.to(wide));
    ctx->save_for_backward({x, h, a, b});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["product"] = Product::keep(product);
    return product->pointwise()->add(base.to(wide), h, b.to(wide), scale).to(base.scalar_type());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &h = saved[1], &a = saved[2], &b = saved[3];
    const auto scale = ctx->saved_data["scale"].toDouble();
    const auto product = Product::kept(ctx->saved_data["product"]);
    const auto wide = product_dtype(x);
    auto [dh, db] = factor_gradients(*product, grads[0].to(wide), h, b, scale);
    at::Tensor dx, da;
    if (ctx->needs_input_grad(1)) dx = product->input_gradient(dh, a.to(wide), x.sizes()).to(x.scalar_type());
    if (ctx->needs_input_grad(2)) da = product->weight_gradient(dh, x.to(wide)).to(a.scalar_type());
    return {grads[0], dx, da, db, at::Tensor(), at::Tensor()};
  }
};

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim) { return parts.size() == 1 ? parts[0] : at::cat(parts, dim); }

/// Holds what backward needs of layers besides tensors.
struct Layers : torch::CustomClassHolder {
  struct Layer {
    std::shared_ptr<const Multiplier> weight;
    double scale;
    int64_t rank;  ///< 0 without a LoRA
  };
  std::vector<Layer> list;
  ProductPtr product;
  std::vector<int64_t> x_sizes;
};

/// Saves x, h = x Aᵀ of all A, and A and B as they are given; of layers without a LoRA nothing. Operands that are widened to be multiplied
/// are added where they are wide.
///
/// A LoRA's share comes first where the layer's product can add to it, so that the product hides the traffic that the addition costs.
struct FrozenLayers : torch::autograd::Function<FrozenLayers> {
  /// `factors`: A and B of each layer that has them.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, at::TensorList factors, const std::vector<FrozenLayer>& given,
                               const ProductPtr& product) {
    const auto wide = product_dtype(x);
    const auto dim = product->channel_dim();
    auto layers = c10::make_intrusive<Layers>();
    layers->product = product;
    layers->x_sizes = x.sizes().vec();
    std::vector<at::Tensor> all_a;
    for (const auto& layer : given) {
      layers->list.push_back({layer.weight, layer.scale, layer.a.defined() ? layer.a.size(0) : 0});
      if (layer.a.defined()) all_a.push_back(layer.a.to(wide));
    }
    const auto h = all_a.empty() ? at::Tensor() : product->forward(x.to(wide), joined(all_a, 0));

    const SharedRows shared(x);
    variable_list results;
    int64_t first = 0;  // channel of h
    for (const auto& layer : given) {
      if (!layer.a.defined()) {
        results.push_back(layer.weight->forward(*product, x, layer.bias));
        continue;
      }
      const auto own = h.narrow(dim, first, layer.a.size(0));
      first += layer.a.size(0);
      at::Tensor y;
      if (layer.weight->adds(*product, x)) {
        auto offset = layer.bias.defined() ? layer.bias.to(wide) : layer.bias;
        y = product->pointwise()->forward(own, (layer.b * layer.scale).to(wide), offset);
        layer.weight->add_(*product, y, x);
      } else {
        y = layer.weight->forward(*product, x, layer.bias).to(wide);
        product->pointwise()->add_(y, own, layer.b.to(wide), layer.scale);
      }
      results.push_back(y.to(x.scalar_type()));
    }

    variable_list saved{h.defined() ? x : at::Tensor(), h};
    saved.insert(saved.end(), factors.begin(), factors.end());
    ctx->save_for_backward(saved);
    ctx->saved_data["layers"] = c10::IValue::make_capsule(std::move(layers));
    ctx->set_materialize_grads(false);
    return results;
  }

  /// Computes the gradients of layers whose results were used.
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto layers = c10::static_intrusive_pointer_cast<Layers>(ctx->saved_data["layers"].toCapsule());
    const auto& product = *layers->product;
    const auto dim = product.channel_dim();
    const auto saved = ctx->get_saved_variables();
    const auto &x = saved[0], &h = saved[1];

    std::vector<Used> used;
    std::vector<Adapted> adapted;
    variable_list result(1 + (saved.size() - 2) + 2);  // of x, the factors, and two that are no tensors
    int64_t first = 0;
    size_t place = 1;
    for (size_t i = 0; i < layers->list.size(); ++i) {
      const auto& [weight, scale, rank] = layers->list[i];
      if (grads[i].defined()) used.push_back({*weight, grads[i]});
      if (rank == 0) continue;
      if (grads[i].defined()) {
        const auto &a = saved[place + 1], &b = saved[place + 2];
        auto [dh, db] = factor_gradients(product, grads[i].to(product_dtype(grads[i])), h.narrow(dim, first, rank), b, scale);
        adapted.push_back({place, a, dh});
        if (ctx->needs_input_grad(place + 1)) result[place + 1] = db;
      }
      first += rank;
      place += 2;
    }
    if (used.empty()) return result;

    const auto dtype = used[0].dy.scalar_type(), wide = product_dtype(used[0].dy);
    const auto [all_a, all_dh] = side_by_side(adapted, wide, dim);
    if (ctx->needs_input_grad(0)) result[0] = input_gradient(*layers, used, all_a, all_dh).to(dtype);
    const bool wants_a = std::ranges::any_of(adapted, [&](const auto& layer) { return ctx->needs_input_grad(layer.place_of_a); });
    if (wants_a) {
      const auto all_da = product.weight_gradient(all_dh, x.to(wide));
      int64_t row = 0;
      for (const auto& [place_of_a, a, _] : adapted) {
        if (ctx->needs_input_grad(place_of_a)) result[place_of_a] = all_da.narrow(0, row, a.size(0)).to(a.scalar_type());
        row += a.size(0);
      }
    }
    return result;
  }

 private:
  /// A layer whose result was used, and the gradient of that.
  struct Used {
    const Multiplier& weight;
    at::Tensor dy;
  };
  /// The factor A of such a layer, and the gradient of x Aᵀ.
  struct Adapted {
    size_t place_of_a;  // among inputs and their gradients; B's is the next
    at::Tensor a, dh;
  };

  /// The factors A one below the other, and the gradients of what they give side by side; undefined without an adapted layer.
  static std::pair<at::Tensor, at::Tensor> side_by_side(const std::vector<Adapted>& adapted, at::ScalarType wide, int64_t dim) {
    if (adapted.empty()) return {};
    std::vector<at::Tensor> as, dhs;
    for (const auto& [_, a, dh] : adapted) {
      as.push_back(a.to(wide));
      dhs.push_back(dh);
    }
    return {joined(as, 0), joined(dhs, dim)};
  }

  static at::Tensor input_gradient(const Layers& layers, const std::vector<Used>& used, const at::Tensor& all_a, const at::Tensor& all_dh) {
    const auto& product = *layers.product;
    const auto wide = product_dtype(used[0].dy);
    at::Tensor dx;
    const bool comes_first = all_dh.defined() && used[0].weight.adds(product, used[0].dy);
    if (comes_first) dx = product.input_gradient(all_dh, all_a, layers.x_sizes);
    for (const auto& [weight, dy] : used) {
      if (dx.defined()) {
        weight.add_input_gradient_(product, dx, dy);
      } else {
        dx = weight.input_gradient(product, dy, layers.x_sizes).to(wide);
      }
    }
    if (all_dh.defined() && !comes_first) product.add_input_gradient_(dx, all_dh, all_a);
    return dx;
  }
};

}  // namespace

std::vector<at::Tensor> frozen_layers(const at::Tensor& x, const std::vector<FrozenLayer>& layers, const ProductPtr& product) {
  std::vector<at::Tensor> factors;
  for (const auto& layer : layers) {
    if (layer.a.defined()) factors.insert(factors.end(), {layer.a, layer.b});
  }
  return FrozenLayers::apply(x, at::TensorList(factors), layers, product);
}

at::Tensor add_low_rank(const at::Tensor& base, const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale,
                        const ProductPtr& product) {
  return AddLowRank::apply(base, x, a, b, scale, product);
}

}  // namespace burnish::kernels
