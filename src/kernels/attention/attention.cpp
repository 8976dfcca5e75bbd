#include "kernels/attention/attention.h"

#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scaled_dot_product_attention.h>

#include "kernels/attention/backends.h"
#include "kernels/attention/cpu.h"
#include "kernels/place.h"

namespace burnish::kernels {

at::Tensor attention_of_aten(const AttentionCall& call) {
  std::optional<at::Tensor> bias;
  if (call.bias.defined()) bias = call.bias;
  return at::scaled_dot_product_attention(call.q, call.k, call.v, bias, /*dropout_p=*/0.0, call.causal, call.scale);
}

namespace {

/// The gradient as it lies in memory like what it is the gradient of.
at::Tensor laid_out_like(const at::Tensor& gradient, at::IntArrayRef strides) {
  if (!gradient.defined() || gradient.strides() == strides) return gradient;
  return at::empty_strided(gradient.sizes(), strides, gradient.options()).copy_(gradient);
}

}  // namespace

at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias, bool causal, double scale) {
  const AttentionCall call{q, k, v, bias, causal, scale};
  if (attention_fits_cpu(call)) return attention_cpu(call);
  prefer_fastest_attention(call);
  auto out = attention_of_aten(call);
  // torch 2.11 keeps cuDNN's plans for backward by the layouts of q, k and v alone (MHACacheKeyWrapper in
  // aten/src/ATen/native/cudnn/MHA.cpp): a gradient that lies otherwise than the first one would be read from wrong places.
  if (!runs_on_cpu(out) && out.scalar_type() != at::kFloat && out.requires_grad())
    out.register_hook([strides = out.strides().vec()](const at::Tensor& gradient) { return laid_out_like(gradient, strides); });
  return out;
}

}  // namespace burnish::kernels
