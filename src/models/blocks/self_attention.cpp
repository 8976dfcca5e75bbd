#include "models/blocks/self_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>

#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models {

namespace {

using Turn = SelfAttention::Turn;

/// x cos + (-second half, first half) sin, in fp32, behind an RMS norm: [B, L, H, P] -> [B, H, L, P].
at::Tensor turned_by_halves(const at::Tensor& x_BLHP, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, double eps) {
  auto normed = at::rms_norm(x_BLHP, weight.sizes(), weight, eps).transpose(1, 2).to(at::kFloat);
  auto halves = normed.chunk(2, -1);
  auto over_heads = [](const at::Tensor& table) { return table.dim() == 3 ? table.unsqueeze(1) : table; };
  auto crossed = at::cat({-halves[1], halves[0]}, -1);
  return (normed * over_heads(cos) + crossed * over_heads(sin)).to(x_BLHP.scalar_type());
}

/// {query, key [B, L, H, P], weights of their norms, cos, sin} -> {query, key [B, H, L, P]}, ready for attention.
nn::Compute heads_by(Turn turn, double eps) {
  return [=](const nn::Tensors& in) {
    auto turned = turn == Turn::pairs ? kernels::qk_norm_rope : turned_by_halves;
    return nn::Tensors{turned(in[0], in[2], in[4], in[5], eps), turned(in[1], in[3], in[4], in[5], eps)};
  };
}

}  // namespace

SelfAttention::SelfAttention(const Sizes& sizes, const at::TensorOptions& options)
    : SharesTokens(sizes.num_heads),
      num_heads_(sizes.num_heads),
      turn_(sizes.turn),
      q_(sizes.width, sizes.width, options, false),
      k_(sizes.width, sizes.width, options, false),
      v_(sizes.width, sizes.width, options, false),
      out_(sizes.width, sizes.width, options, false),
      norm_q_(sizes.width / sizes.num_heads, sizes.norm_eps, options),
      norm_k_(sizes.width / sizes.num_heads, sizes.norm_eps, options) {
  own(sizes.names.q, q_);
  own(sizes.names.k, k_);
  own(sizes.names.v, v_);
  own(sizes.names.out, out_);
  own(sizes.names.norm_q, norm_q_);
  own(sizes.names.norm_k, norm_k_);
}

nn::Tensors SelfAttention::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_}, x_BLD);
  for (auto& heads : all) heads = heads.unflatten(-1, {num_heads_, -1});
  return all;
}

at::Tensor SelfAttention::attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const {
  return attend(projected, cos, sin,
                [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return nn::attention(q, k, v, bias); });
}

at::Tensor SelfAttention::attend(const nn::Tensors& projected, const at::Tensor& cos_of_all, const at::Tensor& sin_of_all,
                                 const Attend& attention) const {
  const auto num_tokens = cos_of_all.size(-2);
  const auto cos = here(cos_of_all, -2), sin = here(sin_of_all, -2);
  const auto v_BHLP = projected[2].transpose(1, 2);
  auto attended =
      nn::recomputed({projected[0], projected[1], norm_q_.weight, norm_k_.weight, cos, sin}, heads_by(turn_, norm_q_.eps()),
                     [&](const nn::Tensors& qk) { return nn::Tensors{attention_by(qk[0], qk[1], v_BHLP, attention, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

}  // namespace burnish::models
