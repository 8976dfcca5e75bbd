#include "nn/linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <stdexcept>

#include "kernels/linear/linear.h"

namespace burnish::nn {

at::Tensor ParameterSource::multiply(const kernels::ProductPtr& product, const at::Tensor& x, const at::Tensor& bias) const {
  return product->multiply(x, weight_, bias);
}

at::Tensor ParameterSource::rows_in(c10::ScalarType dtype, int64_t begin, int64_t end) const {
  return weight_.detach().narrow(0, begin, end - begin).flatten(1).to(dtype);
}

at::Tensor ParameterSource::forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const {
  return product.multiply(x, weight_, bias);
}

at::Tensor ParameterSource::input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const {
  return product.multiply_back(dy, weight_.detach(), x_sizes);
}

bool ParameterSource::adds(const kernels::Product& product, const at::Tensor& operand) const {
  return product.adds() && kernels::adds_in_place(operand, weight_);
}

void ParameterSource::add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const {
  product.add_(sum, x, weight_.detach(), 1);
}

void ParameterSource::add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const {
  if (adds(product, dy)) return product.add_input_gradient_(sum, dy, weight_.detach());
  WeightSource::add_input_gradient_(product, sum, dy);
}

std::shared_ptr<const kernels::Multiplier> LinearMap::frozen() const {
  auto trains = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
  return trains(weight) || trains(bias) ? nullptr : source_;
}

LinearMap::LinearMap(at::Tensor given, kernels::ProductPtr product)
    : weight(std::move(given)), product_(std::move(product)), source_(std::make_shared<ParameterSource>(weight)) {
  in_features_ = source_->in_features();
  out_features_ = source_->out_features();
  own("weight", weight);
}

LinearMap::LinearMap(const std::vector<int64_t>& weight_sizes, const at::TensorOptions& options, bool with_bias,
                     kernels::ProductPtr product)
    : LinearMap(at::empty(weight_sizes, options), std::move(product)) {
  if (with_bias) {
    bias = at::empty({out_features_}, options);
    own("bias", bias);
  }
}

namespace {

std::vector<int64_t> kernel_sizes(int64_t in_channels, int64_t out_channels, const kernels::Window& window) {
  std::vector<int64_t> sizes{out_channels, in_channels};
  sizes.insert(sizes.end(), window.kernel.begin(), window.kernel.end());
  return sizes;
}

}  // namespace

Conv::Conv(int64_t in_channels, int64_t out_channels, const kernels::Window& window, const at::TensorOptions& options, bool with_bias)
    : LinearMap(kernel_sizes(in_channels, out_channels, window), options, with_bias, kernels::convolution(window)) {}

std::vector<at::Tensor> forward_all(const std::vector<const Linear*>& layers, const at::Tensor& x) {
  std::vector<at::Tensor> results(layers.size());
  std::vector<kernels::FrozenLayer> together;
  std::vector<size_t> places;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& layer = *layers[i];
    std::optional<kernels::FrozenLayer> frozen;
    if (layer.delta) frozen = layer.delta->as_frozen_layer(layer);
    else if (auto weight = layer.frozen()) frozen = {.weight = std::move(weight), .bias = layer.bias, .a = {}, .b = {}};
    if (frozen) {
      together.push_back(std::move(*frozen));
      places.push_back(i);
    } else {
      results[i] = layer.forward(x);
    }
  }
  if (together.empty()) return results;
  const auto products = kernels::frozen_layers(x, together, kernels::matrix_product());
  for (size_t i = 0; i < places.size(); ++i) {
    const auto& layer = *layers[places[i]];
    results[places[i]] = layer.delta ? layer.delta->after_product(layer, products[i]) : products[i];
  }
  return results;
}

void LinearMap::set_source(std::shared_ptr<WeightSource> source) {
  if (source->in_features() != in_features_ || source->out_features() != out_features_)
    throw std::logic_error("a weight source of another shape than its layer");
  source_ = std::move(source);
  is_parameter_ = false;
  weight = source_->gradient_leaf();
}

void LinearMap::share(const LinearMap& other) {
  weight = other.weight;
  bias = other.bias;
  before_read = other.before_read;
  if (!other.is_parameter_) return set_source(other.source_);
  if (!is_parameter_) source_ = std::make_shared<ParameterSource>(weight);
  is_parameter_ = true;
}

}  // namespace burnish::nn
