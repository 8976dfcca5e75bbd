#include "models/text/clip_layer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/sigmoid.h>

#include "nn/attention.h"

namespace burnish::models::text {

namespace {

at::Tensor activated(Gelu gelu, const at::Tensor& x) {
  if (gelu == Gelu::quick) return x * at::sigmoid(x * 1.702);
  return at::gelu(x, gelu == Gelu::tanh ? "tanh" : "none");
}

}  // namespace

ClipLayer::ClipLayer(const Sizes& s, const at::TensorOptions& options)
    : sizes_(s),
      norm1_(s.width, s.eps, options),
      norm2_(s.width, s.eps, options),
      q_(s.width, s.width, options),
      k_(s.width, s.width, options),
      v_(s.width, s.width, options),
      out_(s.width, s.width, options),
      fc1_(s.width, s.hidden, options),
      fc2_(s.hidden, s.width, options) {
  own("layer_norm1", norm1_);
  own("layer_norm2", norm2_);
  own("self_attn.q_proj", q_);
  own("self_attn.k_proj", k_);
  own("self_attn.v_proj", v_);
  own("self_attn.out_proj", out_);
  own("mlp.fc1", fc1_);
  own("mlp.fc2", fc2_);
}

nn::Tensors ClipLayer::body(const nn::Tensors& in) {
  const auto& x = in[0];
  auto normed = norm1_.forward(x);
  auto qkv = nn::forward_all({&q_, &k_, &v_}, normed);
  for (auto& heads : qkv) heads = nn::split_heads(heads, sizes_.num_heads);
  auto mid = x + out_.forward(nn::merge_heads(nn::attention(qkv[0], qkv[1], qkv[2], {}, sizes_.causal)));
  return {mid + fc2_.forward(activated(sizes_.gelu, fc1_.forward(norm2_.forward(mid))))};
}

}  // namespace burnish::models::text
