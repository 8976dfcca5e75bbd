#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mkldnn_convolution.h>
#include <c10/util/accumulate.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "kernels/linear/linear.h"
#include "kernels/product/product.h"

namespace burnish::kernels {

namespace {

/// Tells whether oneDNN has to be asked for. ATen gives it batches and large inputs alone, and of a small clip lays out the window of every
/// place, which takes ten times as long and as many times the memory as the window has places.
bool is_clip_on_cpu(const at::Tensor& x) {
  return x.dim() == 5 && x.device().is_cpu() && x.scalar_type() == at::kFloat && at::globalContext().userEnabledMkldnn();
}

class Convolution : public Product, public std::enable_shared_from_this<Convolution> {
 public:
  explicit Convolution(Window window) : window_(std::move(window)), zeros_(window_.kernel.size(), 0) {}
  int64_t channel_dim() const override { return -1 - std::ssize(window_.kernel); }
  int64_t columns_per_channel() const override { return c10::multiply_integers(window_.kernel); }
  std::vector<int64_t> weight_sizes(int64_t rows, int64_t columns) const override {
    std::vector<int64_t> sizes{rows, columns / columns_per_channel()};
    sizes.insert(sizes.end(), window_.kernel.begin(), window_.kernel.end());
    return sizes;
  }
  ProductPtr pointwise() const override { return convolution(Window::cube(window_.kernel.size(), 1)); }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& w_OI, const at::Tensor& bias) const override {
    auto offset = bias.defined() ? std::optional(bias) : std::nullopt;
    auto kernels = met(kernels_of(w_OI), x.sizes());
    if (is_clip_on_cpu(x)) return at::mkldnn_convolution(x, kernels, offset, window_.padding, window_.stride, window_.dilation, 1);
    return at::convolution(x, kernels, offset, window_.stride, window_.padding, window_.dilation, false, zeros_, 1);
  }
  at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& w_OI, at::IntArrayRef x_sizes) const override {
    return gradients(dy, shape_only(dy, x_sizes), met(kernels_of(w_OI), x_sizes), {true, false, false}, 0);
  }
  at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) const override {
    auto channels = channel_dim();
    auto weight = met(shape_only(dy, weight_sizes(dy.size(channels), x.size(channels) * columns_per_channel())), x.sizes());
    return with_unmet(gradients(dy, x, weight, {false, true, false}, 1)).flatten(1);
  }
  at::Tensor add(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w_OI, double scale) const override {
    return at::add(base, forward(x, w_OI, {}), scale);
  }
  void add_(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& w_OI, double scale) const override {
    sum.add_(forward(x, w_OI, {}), scale);
  }
  void add_input_gradient_(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& w_OI) const override {
    sum.add_(input_gradient(dy, w_OI, sum.sizes()));
  }
  bool adds() const override { return false; }
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const override;
  at::Tensor multiply_back(const at::Tensor& dy, const at::Tensor& weight, at::IntArrayRef x_sizes) const override {
    auto wide = product_dtype(dy);
    return input_gradient(dy.to(wide), weight.to(wide), x_sizes).to(dy.scalar_type());
  }

 private:
  at::Tensor kernels_of(const at::Tensor& w_OI) const { return w_OI.reshape(weight_sizes(w_OI.size(0), w_OI.numel() / w_OI.size(0))); }
  /// A tensor of this shape that takes no memory, for a backward that reads nothing else of it.
  static at::Tensor shape_only(const at::Tensor& like, at::IntArrayRef sizes) {
    return at::empty({1}, like.options().requires_grad(false)).expand(sizes);
  }
  /// The part of kernels that meets an input of these sizes, and the gradient of that part with zeros for the rest.
  at::Tensor met(const at::Tensor& kernels, at::IntArrayRef x_sizes) const {
    auto all = window_.kernel[0], count = std::min(all, x_sizes[2]);
    return window_.causal && count < all ? kernels.narrow(2, all - count, count) : kernels;
  }
  at::Tensor with_unmet(const at::Tensor& dw) const {
    auto missing = window_.kernel[0] - dw.size(2);
    if (missing == 0) return dw;
    std::vector<int64_t> pad(2 * window_.kernel.size(), 0);
    pad.end()[-2] = missing;
    return at::constant_pad_nd(dw, pad);
  }
  at::Tensor gradients(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight, std::array<bool, 3> wanted, int which) const {
    auto all =
        at::convolution_backward(dy, x, weight, std::nullopt, window_.stride, window_.padding, window_.dilation, false, zeros_, 1, wanted);
    return which == 0 ? std::get<0>(all) : std::get<1>(all);
  }

  Window window_;
  std::vector<int64_t> zeros_;
};

/// Saves the weight, and x only where the weight trains. 16-bit operands are widened on CPUs without instructions for them.
struct Convolve : torch::autograd::Function<Convolve> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ProductPtr& product) {
    ctx->save_for_backward({weight.requires_grad() ? x : at::Tensor(), weight});
    ctx->saved_data["product"] = Product::keep(product);
    ctx->saved_data["sizes"] = x.sizes().vec();
    ctx->saved_data["bias"] = bias.has_value();
    auto wide = product_dtype(x);
    return product->forward(x.to(wide), weight.to(wide), bias ? bias->to(wide) : at::Tensor()).to(x.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    auto saved = ctx->get_saved_variables();
    const auto& weight = saved[1];
    auto product = Product::kept(ctx->saved_data["product"]);
    auto wide = product_dtype(grads[0]);
    auto dy = grads[0].to(wide);
    at::Tensor dx, dw, db;
    if (ctx->needs_input_grad(0)) dx = product->multiply_back(grads[0], weight, ctx->saved_data["sizes"].toIntVector());
    if (ctx->needs_input_grad(1)) dw = product->weight_gradient(dy, saved[0].to(wide)).view(weight.sizes()).to(weight.scalar_type());
    if (ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2))
      db = sum_to_channels(dy, product->channel_dim()).to(weight.scalar_type());
    return {dx, dw, db, at::Tensor()};
  }
};

at::Tensor Convolution::multiply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  return Convolve::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, shared_from_this());
}

}  // namespace

Window Window::cube(size_t rank, int64_t kernel, int64_t stride, int64_t padding) {
  auto each = [&](int64_t value) { return std::vector<int64_t>(rank, value); };
  return {.kernel = each(kernel), .stride = each(stride), .padding = each(padding), .dilation = each(1)};
}

ProductPtr convolution(const Window& window) { return std::make_shared<Convolution>(window); }

}  // namespace burnish::kernels
