#include "nn/layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/where.h>

#include "kernels/group_norm_silu/group_norm_silu.h"
#include "nn/recomputed_values.h"

namespace burnish::nn {

Embedding::Embedding(int64_t num_rows, int64_t dim, const at::TensorOptions& options) : weight(at::empty({num_rows, dim}, options)) {
  own("weight", weight);
}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  if (added.empty()) return at::embedding(weight, ids);
  const auto num_rows = weight.size(0);
  const auto of_table = at::embedding(weight, ids.clamp_max(num_rows - 1));
  const auto of_added = at::embedding(at::cat(added), (ids - num_rows).clamp_min(0));
  return at::where((ids >= num_rows).unsqueeze(-1), of_added.to(of_table.dtype()), of_table);
}

LayerNorm::LayerNorm(int64_t dim, double eps, const at::TensorOptions& options)
    : weight(at::empty({dim}, options)), bias(at::empty({dim}, options)), eps_(eps) {
  own("weight", weight);
  own("bias", bias);
}

at::Tensor LayerNorm::forward(const at::Tensor& x) const { return at::layer_norm(x, weight.sizes(), weight, bias, eps_); }

at::Tensor LayerNorm::before(const std::function<at::Tensor(const at::Tensor& normed)>& use, const at::Tensor& x) const {
  return recomputed(
      {x, weight, bias}, [eps = eps_](const Tensors& in) { return at::layer_norm(in[0], in[1].sizes(), in[1], in[2], eps); }, use);
}

RMSNorm::RMSNorm(int64_t dim, double eps, const at::TensorOptions& options) : weight(at::empty({dim}, options)), eps_(eps) {
  own("weight", weight);
}

at::Tensor RMSNorm::forward(const at::Tensor& x) const { return at::rms_norm(x, weight.sizes(), weight, eps_); }

GroupNorm::GroupNorm(int64_t num_groups, int64_t channels, double eps, const at::TensorOptions& options)
    : weight(at::empty({channels}, options)), bias(at::empty({channels}, options)), num_groups_(num_groups), eps_(eps) {
  own("weight", weight);
  own("bias", bias);
}

at::Tensor GroupNorm::forward(const at::Tensor& x) const { return at::group_norm(x, num_groups_, weight, bias, eps_); }

at::Tensor GroupNorm::forward_silu(const at::Tensor& x) const { return kernels::group_norm_silu(x, num_groups_, weight, bias, eps_); }

at::Tensor GroupNorm::silu_before(const std::function<at::Tensor(const at::Tensor& activated)>& use, const at::Tensor& x) const {
  return recomputed(
      {x, weight, bias},
      [groups = num_groups_, eps = eps_](const Tensors& in) { return kernels::group_norm_silu(in[0], groups, in[1], in[2], eps); }, use);
}

}  // namespace burnish::nn
