#pragma once
#include <memory>

#include "nn/module.h"

namespace burnish::nn {

class Linear;

/// A correction hung on a frozen linear map; implemented by `adapters/`.
/// `forward` receives the layer, its input x [..., in] and the base output [..., out], and returns the corrected output.
class Delta {
 public:
  virtual ~Delta() = default;
  virtual at::Tensor forward(const Linear& base, const at::Tensor& x, const at::Tensor& base_out) = 0;
};

/// y = x Wᵀ + b (+ delta). x: [..., in] -> [..., out]. Every matrix product with a weight goes through here, so a weight's
/// storage and an adapter are each known in one place only.
class Linear : public Module {
 public:
  Linear(int64_t in_features, int64_t out_features, const at::TensorOptions& options, bool with_bias = true);

  at::Tensor forward(const at::Tensor& x) const;
  int64_t in_features() const { return weight.size(1); }
  int64_t out_features() const { return weight.size(0); }

  at::Tensor weight;  ///< [out, in]
  at::Tensor bias;    ///< [out], undefined without bias
  std::shared_ptr<Delta> delta;
};

}  // namespace burnish::nn
