#include "models/text/qwen_layer.h"

#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include <stdexcept>

#include "models/text/rotate_halves.h"
#include "nn/attention.h"

namespace burnish::models::text {

at::Tensor rotate_halves(const at::Tensor& x_BHLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP) {
  auto halves = x_BHLD.chunk(2, -1);
  auto cos = cos_LP.to(x_BHLD.scalar_type()), sin = sin_LP.to(x_BHLD.scalar_type());
  return at::cat({halves[0] * cos - halves[1] * sin, halves[1] * cos + halves[0] * sin}, -1);
}

at::Tensor QwenNorm::forward(const at::Tensor& x) const {
  if (!adds_one_) return RMSNorm::forward(x);
  const auto exact = at::toOpMathType(x.scalar_type());
  return at::rms_norm(x.to(exact), weight.sizes(), weight.to(exact) + 1, eps()).to(x.scalar_type());
}

QwenAttention::QwenAttention(const QwenConfig& c, const at::TensorOptions& options)
    : config_(c),
      q_(c.width, c.num_heads * c.head_dim * (c.gated ? 2 : 1), options, c.qkv_bias),
      k_(c.width, c.num_kv_heads * c.head_dim, options, c.qkv_bias),
      v_(c.width, c.num_kv_heads * c.head_dim, options, c.qkv_bias),
      o_(c.num_heads * c.head_dim, c.width, options, false) {
  own("q_proj", q_);
  own("k_proj", k_);
  own("v_proj", v_);
  own("o_proj", o_);
  if (!c.qk_norm) return;
  q_norm_ = std::make_unique<QwenNorm>(c.head_dim, c, options);
  k_norm_ = std::make_unique<QwenNorm>(c.head_dim, c, options);
  own("q_norm", *q_norm_);
  own("k_norm", *k_norm_);
}

at::Tensor QwenAttention::heads(const at::Tensor& x_BLHD, const QwenNorm* norm, const at::Tensor& cos, const at::Tensor& sin) const {
  auto x_BHLD = (norm ? norm->forward(x_BLHD) : x_BLHD).transpose(1, 2);
  const auto num_turned = num_rotated(config_);
  if (num_turned == config_.head_dim) return rotate_halves(x_BHLD, cos, sin);
  return at::cat({rotate_halves(x_BHLD.narrow(-1, 0, num_turned), cos, sin), x_BHLD.slice(-1, num_turned)}, -1);
}

at::Tensor QwenAttention::forward(const at::Tensor& x_BLE, const at::Tensor& cos, const at::Tensor& sin, const Attend& attend) const {
  const auto qkv = nn::forward_all({&q_, &k_, &v_}, x_BLE);
  auto query = qkv[0].unflatten(-1, {config_.num_heads, -1});
  at::Tensor gate;
  if (config_.gated) {
    gate = query.slice(-1, config_.head_dim).flatten(2);
    query = query.narrow(-1, 0, config_.head_dim);
  }
  auto q = heads(query, q_norm_.get(), cos, sin);
  auto k = heads(qkv[1].unflatten(-1, {config_.num_kv_heads, -1}), k_norm_.get(), cos, sin);
  auto seen = attend(q, k, nn::split_heads(qkv[2], config_.num_kv_heads));
  return o_.forward(gate.defined() ? seen * at::sigmoid(gate) : seen);
}

QwenLayer::QwenLayer(const QwenConfig& c, int64_t number, const at::TensorOptions& options)
    : config_(c),
      input_norm_(c.width, c, options),
      post_norm_(c.width, c, options),
      gate_(c.width, c.hidden, options, false),
      up_(c.width, c.hidden, options, false),
      down_(c.hidden, c.width, options, false) {
  own("input_layernorm", input_norm_);
  own("post_attention_layernorm", post_norm_);
  if (c.gated && (number + 1) % c.gated->full_every != 0) {
    delta_ = std::make_unique<GatedDelta>(*c.gated, c.width, c.eps, options);
    own("linear_attn", *delta_);
  } else {
    attention_ = std::make_unique<QwenAttention>(c, options);
    own("self_attn", *attention_);
  }
  own("mlp.gate_proj", gate_);
  own("mlp.up_proj", up_);
  own("mlp.down_proj", down_);
}

nn::Tensors QwenLayer::body(const nn::Tensors& in) {
  return {forward(in, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    auto attended = attend(q, k, v, in.size() > 3 ? in[3] : at::Tensor());
    return in.size() > 4 ? attended * in[4].to(attended.scalar_type()) : attended;
  })};
}

at::Tensor QwenLayer::after(KeyValues& past, size_t layer, const nn::Tensors& in) {
  if (!attention_) throw std::logic_error("the past of gated linear attention is a state, and no keys and values");
  return forward(in, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    auto [keys, values] = past.append(layer, k, v);
    if (q.size(2) > 1) return attend(q, keys, values, {});
    // With a single token, the heads that share keys are several queries.
    auto attended = nn::attention(q.squeeze(2).unflatten(1, {config_.num_kv_heads, -1}), keys, values, in[3]);
    return attended.flatten(1).unsqueeze(1);
  });
}

at::Tensor QwenLayer::forward(const nn::Tensors& in, const QwenAttention::Attend& attend) const {
  auto normed = input_norm_.forward(in[0]);
  auto mid = in[0] + (delta_ ? delta_->forward(normed) : attention_->forward(normed, in[1], in[2], attend));
  const auto gate_and_up = nn::forward_all({&gate_, &up_}, post_norm_.forward(mid));
  return mid + down_.forward(at::silu(gate_and_up[0]) * gate_and_up[1]);
}

/// Causal where there is no bias.
at::Tensor QwenLayer::attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) const {
  auto shared = config_.num_heads / config_.num_kv_heads;
  return nn::merge_heads(
      nn::attention(q, k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1), bias, /*causal=*/!bias.defined()));
}

}  // namespace burnish::models::text
