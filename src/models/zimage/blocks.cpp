#include "models/zimage/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/remade.h"

namespace burnish::models::zimage {

namespace {
constexpr double kHeadNormEps = 1e-5;

/// {x [B, L, D], weight of an RMS norm [D]} -> the norm of x; times 1 + scale where a scale [B, D] is third.
nn::Compute normed_by(double eps) {
  return [eps](const nn::Tensors& in) {
    auto normed = at::rms_norm(in[0], in[1].sizes(), in[1], eps);
    return nn::Tensors{in.size() > 2 ? normed * (in[2] + 1).unsqueeze(1) : normed};
  };
}

/// {query, key [B, L, H, D], weights of their norms, cos, sin} -> {query, key [B, H, L, D]}, ready for attention.
nn::Tensors heads_of(const nn::Tensors& in) {
  return {kernels::qk_norm_rope(in[0], in[2], in[4], in[5], kHeadNormEps), kernels::qk_norm_rope(in[1], in[3], in[4], in[5], kHeadNormEps)};
}
}  // namespace

SelfAttention::SelfAttention(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads()),
      num_heads_(c.num_heads()),
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

nn::Tensors SelfAttention::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_}, x_BLD);
  for (auto& heads : all) heads = heads.unflatten(-1, {num_heads_, -1});
  return all;
}

at::Tensor SelfAttention::attend(const nn::Tensors& projected, const at::Tensor& cos_of_all, const at::Tensor& sin_of_all,
                                 const at::Tensor& bias) const {
  const auto num_tokens = cos_of_all.size(-2);
  const auto cos = here(cos_of_all, -2), sin = here(sin_of_all, -2);
  const auto v_BHLD = projected[2].transpose(1, 2);
  auto attended = nn::remade({projected[0], projected[1], norm_q_.weight, norm_k_.weight, cos, sin}, heads_of,
                             [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v_BHLD, bias, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

RefinedBlock::RefinedBlock(const Config& c, bool modulated, const at::TensorOptions& options)
    : attention_(c, options),
      feed_forward_(c.width, c.hidden, options, {.gate = "w1", .up = "w3", .down = "w2"}),
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
  nn::Tensors m;  // scale and gate of attention, scale and gate of the MLP
  if (modulation_) m = modulation_->forward(in[3]).chunk(4, -1);
  auto before = [&](const at::Tensor& x_BLD, const nn::RMSNorm& norm, size_t scale, const auto& use) {
    nn::Tensors from{x_BLD, norm.weight};
    if (modulation_) from.push_back(m[scale]);
    return nn::remade(from, normed_by(norm.eps()), [&](const nn::Tensors& normed) { return use(normed[0]); });
  };
  auto added = [&](const at::Tensor& x_BLD, const at::Tensor& y_BLD, const nn::RMSNorm& norm, size_t gate) {
    return nn::remade({y_BLD, norm.weight}, normed_by(norm.eps()), [&](const nn::Tensors& normed) {
      return nn::Tensors{modulation_ ? kernels::gated_residual(x_BLD, at::tanh(m[gate]), normed[0]) : x_BLD + normed[0]};
    })[0];
  };
  auto projected = before(x, attention_norm1_, 0, [&](const at::Tensor& normed) { return attention_.project(normed); });
  auto mid = added(x, attention_.attend(projected, cos, sin, bias), attention_norm2_, 1);
  auto moved = before(mid, ffn_norm1_, 2, [&](const at::Tensor& normed) { return nn::Tensors{feed_forward_.forward(normed)}; });
  return {added(mid, moved[0], ffn_norm2_, 3)};
}

}  // namespace burnish::models::zimage
