#pragma once
#include <memory>

#include "nn/module.h"
#include "nn/weight_source.h"

namespace burnish::nn {

class Linear;

/// A correction hung on a frozen linear map; implemented by `adapters/`.
/// `forward` receives the layer and its input x [..., in] and returns the corrected output [..., out]; the layer's own is `base.base(x)`.
class Delta {
 public:
  virtual ~Delta() = default;
  virtual at::Tensor forward(const Linear& base, const at::Tensor& x) = 0;
};

/// A parameter as a weight source: a view of the tensor it is made of.
class ParameterSource : public WeightSource {
 public:
  explicit ParameterSource(at::Tensor& weight) : weight_(weight) {}
  int64_t in_features() const override { return weight_.size(1); }
  int64_t out_features() const override { return weight_.size(0); }
  c10::Device device() const override { return weight_.device(); }
  int64_t num_bytes() const override { return static_cast<int64_t>(weight_.nbytes()); }
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& bias) const override;
  at::Tensor multiply_transposed(const at::Tensor& dy) const override;
  at::Tensor rows(int64_t begin, int64_t end) const override;
  void rewrite(const Rows& new_rows) override;

 private:
  at::Tensor& weight_;
};

/// y = x Wᵀ + b (+ delta). x: [..., in] -> [..., out]. Every matrix product with a weight goes through here, so a weight's
/// storage and an adapter are each known in one place only.
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, const at::TensorOptions& options, bool with_bias = true);

  at::Tensor forward(const at::Tensor& x) const { return delta ? delta->forward(*this, x) : base(x); }
  /// x Wᵀ + b, whatever hangs on the layer.
  at::Tensor base(const at::Tensor& x) const { return source().multiply(x, bias); }
  int64_t in_features() const { return in_features_; }
  int64_t out_features() const { return out_features_; }

  WeightSource& source() const { return *source_; }
  /// Holds W in `source` from now on; the parameter `weight` is given up.
  void set_source(std::shared_ptr<WeightSource> source);
  /// Whether W is a parameter (and not codes).
  bool has_parameter() const { return weight.defined(); }

  at::Tensor weight;  ///< [out, in]; undefined once another source holds W
  at::Tensor bias;    ///< [out], undefined without bias
  std::shared_ptr<Delta> delta;

 protected:
  int64_t bytes_of_sources() const override { return has_parameter() ? 0 : source_->num_bytes(); }

 private:
  int64_t in_features_, out_features_;
  std::shared_ptr<WeightSource> source_;
};

}  // namespace burnish::nn
