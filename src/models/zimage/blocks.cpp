#include "models/zimage/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"

namespace burnish::models::zimage {

namespace {
constexpr double kHeadNormEps = 1e-5;
}  // namespace

GatedMlp::GatedMlp(const Config& c, const at::TensorOptions& options)
    : w1_(c.width, c.hidden, options, false), w2_(c.hidden, c.width, options, false), w3_(c.width, c.hidden, options, false) {
  own("w1", w1_);
  own("w2", w2_);
  own("w3", w3_);
}

at::Tensor GatedMlp::forward(const at::Tensor& x) const { return w2_.forward(at::silu(w1_.forward(x)) * w3_.forward(x)); }

SelfAttention::SelfAttention(const Config& c, const at::TensorOptions& options)
    : num_heads_(c.num_heads()),
      q_(c.width, c.width, options, false),
      k_(c.width, c.width, options, false),
      v_(c.width, c.width, options, false),
      out_(c.width, c.width, options, false),
      norm_q_(c.head_dim, kHeadNormEps, options),
      norm_k_(c.head_dim, kHeadNormEps, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own("to_out.0", out_);
  own("norm_q", norm_q_);
  own("norm_k", norm_k_);
}

at::Tensor SelfAttention::forward(const at::Tensor& x_BLD, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const {
  auto heads = [&](const nn::Linear& layer, const nn::RMSNorm& norm) {
    return kernels::qk_norm_rope(layer.forward(x_BLD).unflatten(-1, {num_heads_, -1}), norm.weight, cos, sin, kHeadNormEps);
  };
  auto v_BHLD = nn::split_heads(v_.forward(x_BLD), num_heads_);
  return out_.forward(nn::merge_heads(nn::attention(heads(q_, norm_q_), heads(k_, norm_k_), v_BHLD, bias)));
}

RefinedBlock::RefinedBlock(const Config& c, bool modulated, const at::TensorOptions& options)
    : attention_(c, options),
      feed_forward_(c, options),
      attention_norm1_(c.width, c.norm_eps, options),
      attention_norm2_(c.width, c.norm_eps, options),
      ffn_norm1_(c.width, c.norm_eps, options),
      ffn_norm2_(c.width, c.norm_eps, options) {
  own("attention", attention_);
  own("feed_forward", feed_forward_);
  own("attention_norm1", attention_norm1_);
  own("attention_norm2", attention_norm2_);
  own("ffn_norm1", ffn_norm1_);
  own("ffn_norm2", ffn_norm2_);
  if (modulated) own("adaLN_modulation.0", *(modulation_ = std::make_unique<nn::Linear>(c.condition_width(), 4 * c.width, options)));
}

nn::Tensors RefinedBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &cos = in[1], &sin = in[2];
  const size_t num_fixed = modulation_ ? 4 : 3;
  auto bias = in.size() > num_fixed ? in[num_fixed] : at::Tensor();
  if (!modulation_) {
    auto mid = x + attention_norm2_.forward(attention_.forward(attention_norm1_.forward(x), cos, sin, bias));
    return {mid + ffn_norm2_.forward(feed_forward_.forward(ffn_norm1_.forward(mid)))};
  }
  auto m = modulation_->forward(in[3]).chunk(4, -1);  // scale and gate of attention, scale and gate of the MLP
  auto scaled = [](const at::Tensor& y, const at::Tensor& scale_BD) { return y * (scale_BD + 1).unsqueeze(1); };
  auto attended = attention_.forward(scaled(attention_norm1_.forward(x), m[0]), cos, sin, bias);
  auto mid = kernels::gated_residual(x, at::tanh(m[1]), attention_norm2_.forward(attended));
  auto moved = feed_forward_.forward(scaled(ffn_norm1_.forward(mid), m[2]));
  return {kernels::gated_residual(mid, at::tanh(m[3]), ffn_norm2_.forward(moved))};
}

}  // namespace burnish::models::zimage
