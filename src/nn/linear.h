#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "kernels/low_rank/low_rank.h"
#include "nn/module.h"
#include "nn/weight_source.h"

namespace burnish::nn {

class LinearMap;

/// A correction hung on a frozen linear map; implemented by `adapters/`.
/// `forward` receives the layer and its input x and returns the corrected output; the layer's own is `base.base(x)`.
class Delta {
 public:
  virtual ~Delta() = default;
  virtual at::Tensor forward(const LinearMap& base, const at::Tensor& x) = 0;
  /// Gives the correction in two steps, so that layers of one x can take the first together: kernels::frozen_layers of what this returns,
  /// then after_product of its result. Nothing where the layer trains, or the correction is no LoRA on the x that the layer sees.
  virtual std::optional<kernels::FrozenLayer> as_frozen_layer(const LinearMap& /*base*/) { return std::nullopt; }
  virtual at::Tensor after_product(const LinearMap& /*base*/, const at::Tensor& y) { return y; }
  /// Is called when the base's weight has become another one.
  virtual void weight_changed(const LinearMap& /*base*/) {}
};

/// A parameter as a weight source: a view of the tensor it is made of, with all dimensions after the first as columns.
class ParameterSource : public WeightSource {
 public:
  explicit ParameterSource(at::Tensor& weight) : weight_(weight) {}
  int64_t in_features() const override { return weight_.size(0) > 0 ? weight_.numel() / weight_.size(0) : 0; }
  int64_t out_features() const override { return weight_.size(0); }
  c10::Device device() const override { return weight_.device(); }
  int64_t num_bytes() const override { return static_cast<int64_t>(weight_.nbytes()); }
  at::Tensor multiply(const kernels::ProductPtr& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor rows_in(c10::ScalarType dtype, int64_t begin, int64_t end) const override;
  at::Tensor forward(const kernels::Product& product, const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor input_gradient(const kernels::Product& product, const at::Tensor& dy, at::IntArrayRef x_sizes) const override;
  bool adds(const kernels::Product& product, const at::Tensor& operand) const override;
  void add_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& x) const override;
  void add_input_gradient_(const kernels::Product& product, const at::Tensor& sum, const at::Tensor& dy) const override;

 private:
  at::Tensor& weight_;
};

/// y = x W + b (+ delta), for a product that is linear in x: a matrix product or a convolution. Everything that multiplies with a trained
/// or stored weight is one of these, so a weight's storage and an adapter are each known in one place only. W is seen as a matrix
/// [out_features, in_features]; a row is all that makes one output channel.
class LinearMap : public Module {
 public:
  /// A map by a weight that is there, without a bias.
  LinearMap(at::Tensor weight, kernels::ProductPtr product);
  at::Tensor forward(const at::Tensor& x) const { return delta ? delta->forward(*this, x) : base(x); }
  /// Computes x W + b, whatever hangs on the layer.
  at::Tensor base(const at::Tensor& x) const { return multiply(x, bias); }
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& offset) const { return source_->multiply(product_, x, offset); }
  int64_t in_features() const { return in_features_; }
  int64_t out_features() const { return out_features_; }
  int64_t in_channels() const { return in_features_ / product_->columns_per_channel(); }
  const kernels::ProductPtr& product() const { return product_; }

  /// W for a product that is not differentiated by W or the bias: null where one of them trains.
  std::shared_ptr<const kernels::Multiplier> frozen() const;

  WeightSource& source() const {
    if (before_read) before_read();
    return *source_;
  }
  /// Holds W in `source` from now on. The parameter `weight` is given up for the source's gradient_leaf, which is undefined unless W
  /// trains.
  void set_source(std::shared_ptr<WeightSource> source);
  /// Holds W and the bias of another layer, of the same shape, from now on: the very tensors, or the codes that it holds them as.
  void share(const LinearMap& other);

  at::Tensor weight;  ///< [out, in], or [out, in, kernel...]; without numbers once another source holds W
  at::Tensor bias;    ///< [out], undefined without bias
  std::shared_ptr<Delta> delta;
  std::function<void()> before_read;  ///< brings W to its device, where it is not always there (memory/paging.h); may be empty

 protected:
  LinearMap(const std::vector<int64_t>& weight_sizes, const at::TensorOptions& options, bool with_bias, kernels::ProductPtr product);
  int64_t bytes_of_sources() const override { return is_parameter_ ? 0 : source_->num_bytes(); }

 private:
  int64_t in_features_, out_features_;
  bool is_parameter_ = true;
  kernels::ProductPtr product_;
  std::shared_ptr<WeightSource> source_;
};

/// y = x Wᵀ + b. x: [..., in] -> [..., out].
class Linear : public LinearMap {
 public:
  Linear(int64_t in_features, int64_t out_features, const at::TensorOptions& options, bool with_bias = true)
      : LinearMap({out_features, in_features}, options, with_bias, kernels::matrix_product()) {}
};

/// Computes the results of layers that read one x, in their order: as layer by layer, but x and its gradient are passed over once for all
/// that do not train, where layer by layer would pass over them for each.
std::vector<at::Tensor> forward_all(const std::vector<const Linear*>& layers, const at::Tensor& x);

/// A convolution over as many dimensions as its window has. [B, in, places...] -> [B, out, places'...].
class Conv : public LinearMap {
 public:
  Conv(int64_t in_channels, int64_t out_channels, const kernels::Window& window, const at::TensorOptions& options, bool with_bias = true);
};

/// One of pictures whose window is a square. [B, in, H, W] -> [B, out, H', W'].
class Conv2d : public Conv {
 public:
  Conv2d(int64_t in_channels, int64_t out_channels, int64_t kernel, int64_t stride, int64_t padding, const at::TensorOptions& options,
         bool with_bias = true)
      : Conv(in_channels, out_channels, kernels::Window::cube(2, kernel, stride, padding), options, with_bias) {}
};

}  // namespace burnish::nn
