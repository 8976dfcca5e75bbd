#include "nn/attention.h"

#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/linear/linear.h"

namespace burnish::nn {

at::Tensor attention(const at::Tensor& q_BHLD, const at::Tensor& k_BHLD, const at::Tensor& v_BHLD, const at::Tensor& bias, bool causal,
                     double scale) {
  if (scale == 0) scale = 1.0 / std::sqrt(static_cast<double>(q_BHLD.size(-1)));
  auto wide = kernels::product_dtype(q_BHLD);  // fp32 where the CPU would emulate the products of bf16
  auto ready = [wide](const at::Tensor& x) {
    auto same = x.to(wide);
    return same.stride(-1) == 1 ? same : same.contiguous();  // no fused kernel takes heads whose numbers lie apart
  };
  auto out = kernels::attention(ready(q_BHLD), ready(k_BHLD), ready(v_BHLD), bias.defined() ? bias.to(wide) : bias, causal, scale);
  return out.to(q_BHLD.scalar_type());
}

at::Tensor split_heads(const at::Tensor& x_BLE, int64_t num_heads) {
  return x_BLE.unflatten(-1, {num_heads, x_BLE.size(-1) / num_heads}).transpose(1, 2);
}

at::Tensor merge_heads(const at::Tensor& x_BHLD) { return x_BHLD.transpose(1, 2).flatten(2); }

}  // namespace burnish::nn
