#pragma once
#include "nn/linear.h"

namespace burnish::nn {

/// A row of the table per id. ids [...] int64 -> [..., dim] in the table's dtype.
class Embedding : public Module {
 public:
  Embedding(int64_t num_rows, int64_t dim, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& ids) const;
  at::Tensor weight;              ///< [rows, dim]
  std::vector<at::Tensor> added;  ///< [n, dim] each, of any dtype: rows of the ids behind the table's, which files of the model lack
};

/// Layer norm over the last dimension with learned scale and offset.
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t dim, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// Computes use(forward(x)), the norm computed again in backward (nn/recomputed_values.h).
  at::Tensor before(const std::function<at::Tensor(const at::Tensor& normed)>& use, const at::Tensor& x) const;
  at::Tensor weight, bias;

 private:
  double eps_;
};

/// x / sqrt(mean(x²) + eps) · weight over the last dimension, the mean in fp32.
class RMSNorm : public Module {
 public:
  RMSNorm(int64_t dim, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  double eps() const { return eps_; }
  at::Tensor weight;

 private:
  double eps_;
};

/// Group norm over [B, C, places...] with learned scale and offset.
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t num_groups, int64_t channels, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  /// SiLU of the norm; autograd keeps x and not the norm.
  at::Tensor forward_silu(const at::Tensor& x) const;
  /// Computes use(forward_silu(x)), the SiLU computed again in backward (nn/recomputed_values.h).
  at::Tensor silu_before(const std::function<at::Tensor(const at::Tensor& activated)>& use, const at::Tensor& x) const;
  at::Tensor weight, bias;

 private:
  int64_t num_groups_;
  double eps_;
};

}  // namespace burnish::nn
