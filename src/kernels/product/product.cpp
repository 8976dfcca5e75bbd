#include "kernels/product/product.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <torch/custom_class.h>

#include "kernels/linear/linear.h"

namespace burnish::kernels {

namespace {

struct Capsule : torch::CustomClassHolder {
  explicit Capsule(ProductPtr product) : product(std::move(product)) {}
  ProductPtr product;
};

class MatrixProduct : public Product {
 public:
  int64_t channel_dim() const override { return -1; }
  int64_t columns_per_channel() const override { return 1; }
  std::vector<int64_t> weight_sizes(int64_t rows, int64_t columns) const override { return {rows, columns}; }
  ProductPtr pointwise() const override { return matrix_product(); }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& w_OI, const at::Tensor& bias) const override {
    auto x_NI = x.flatten(0, -2);
    auto y = bias.defined() ? at::linear(x_NI, w_OI, bias) : at::mm(x_NI, w_OI.t());
    return y.view(with_channels(x.sizes(), w_OI.size(0)));
  }
  at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& w_OI, at::IntArrayRef x_sizes) const override {
    return at::mm(dy.flatten(0, -2), w_OI).view(x_sizes);
  }
  at::Tensor weight_gradient(const at::Tensor& dy, const at::Tensor& x) const override {
    return at::mm(dy.flatten(0, -2).t(), x.flatten(0, -2));
  }
  at::Tensor add(const at::Tensor& base, const at::Tensor& x, const at::Tensor& w_OI, double scale) const override {
    return at::addmm(base.flatten(0, -2), x.flatten(0, -2), w_OI.t(), 1, scale).view(base.sizes());
  }
  void add_(const at::Tensor& sum, const at::Tensor& x, const at::Tensor& w_OI, double scale) const override {
    rows_of(sum).addmm_(x.flatten(0, -2), w_OI.t(), 1, scale);
  }
  void add_input_gradient_(const at::Tensor& sum, const at::Tensor& dy, const at::Tensor& w_OI) const override {
    rows_of(sum).addmm_(dy.flatten(0, -2), w_OI);
  }
  bool adds() const override { return true; }
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const override {
    return linear(x, weight, bias);
  }
  at::Tensor multiply_back(const at::Tensor& dy, const at::Tensor& weight, at::IntArrayRef x_sizes) const override {
    return linear_back(dy.flatten(0, -2), weight).view(x_sizes);
  }

 private:
  /// A view, of what is contiguous.
  static at::Tensor rows_of(const at::Tensor& x) { return x.view({-1, x.size(-1)}); }
  static std::vector<int64_t> with_channels(at::IntArrayRef sizes, int64_t channels) {
    auto changed = sizes.vec();
    changed.back() = channels;
    return changed;
  }
};

}  // namespace

void Multiplier::add_(const Product& product, const at::Tensor& sum, const at::Tensor& x) const { sum.add_(forward(product, x, {})); }

void Multiplier::add_input_gradient_(const Product& product, const at::Tensor& sum, const at::Tensor& dy) const {
  sum.add_(input_gradient(product, dy, sum.sizes()));
}

c10::IValue Product::keep(const ProductPtr& product) { return c10::IValue::make_capsule(c10::make_intrusive<Capsule>(product)); }

ProductPtr Product::kept(const c10::IValue& value) { return c10::static_intrusive_pointer_cast<Capsule>(value.toCapsule())->product; }

ProductPtr matrix_product() {
  static const ProductPtr product = std::make_shared<MatrixProduct>();
  return product;
}

at::Tensor sum_to_channels(const at::Tensor& x, int64_t channel_dim) {
  std::vector<int64_t> others;
  for (int64_t dim = -x.dim(); dim < 0; ++dim) {
    if (dim != channel_dim) others.push_back(dim);
  }
  return others.empty() ? x : x.sum(others);
}

}  // namespace burnish::kernels
