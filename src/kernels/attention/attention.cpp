#include "kernels/attention/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>

#include "kernels/attention/backends.h"
#include "kernels/attention/cpu.h"

namespace burnish::kernels {

at::Tensor attention_of_aten(const AttentionCall& call) {
  std::optional<at::Tensor> bias;
  if (call.bias.defined()) bias = call.bias;
  return at::scaled_dot_product_attention(call.q, call.k, call.v, bias, /*dropout_p=*/0.0, call.causal, call.scale);
}

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias, bool causal, double scale) {
  const AttentionCall call{q, k, v, bias, causal, scale};
  if (attention_fits_cpu(call)) return attention_cpu(call);
  prefer_fastest_attention(call);
  return attention_of_aten(call);
}

}  // namespace burnish::kernels
