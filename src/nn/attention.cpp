#include "nn/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include <cmath>

namespace burnish::nn {

at::Tensor attention(const at::Tensor& q_BHLD, const at::Tensor& k_BHLD, const at::Tensor& v_BHLD, const at::Tensor& bias, bool causal,
                     double scale) {
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(q_BHLD.size(-1)));
  return at::scaled_dot_product_attention(q_BHLD, k_BHLD, v_BHLD, bias.defined() ? std::optional<at::Tensor>(bias) : std::nullopt,
                                          /*dropout_p=*/0.0, causal, scale);
}

at::Tensor split_heads(const at::Tensor& x_BLE, int64_t num_heads) {
  return x_BLE.unflatten(-1, {num_heads, x_BLE.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& x_BHLD) { return x_BHLD.transpose(1, 2).flatten(2); }

}  // namespace burnish::nn
