#include "models/blocks/self_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>

#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models {

namespace {

using Turn = HeadSizes::Turn;

/// x cos + (-second half, first half) sin, in fp32, behind an RMS norm: [B, L, H, P] -> [B, H, L, P].
at::Tensor turned_by_halves(const at::Tensor& x_BLHP, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, double eps) {
  auto normed = at::rms_norm(x_BLHP, weight.sizes(), weight, eps).transpose(1, 2).to(at::kFloat);
  auto halves = normed.chunk(2, -1);
  auto over_heads = [](const at::Tensor& table) { return table.dim() == 3 ? table.unsqueeze(1) : table; };
  auto crossed = at::cat({-halves[1], halves[0]}, -1);
  return (normed * over_heads(cos) + crossed * over_heads(sin)).to(x_BLHP.scalar_type());
}

/// {query, key [B, L, H, P], weights of their norms, cos, sin, and value where a head of keys serves several queries} -> {query, key
/// [B, H, L, P], and that value}, ready for attention.
nn::Compute heads_by(Turn turn, int64_t queries_of_key, double eps) {
  return [=](const nn::Tensors& in) {
    auto turned = turn == Turn::pairs ? kernels::qk_norm_rope : turned_by_halves;
    nn::Tensors heads{turned(in[0], in[2], in[4], in[5], eps), turned(in[1], in[3], in[4], in[5], eps)};
    if (queries_of_key == 1) return heads;
    heads[1] = heads[1].repeat_interleave(queries_of_key, 1);
    heads.push_back(in[6].transpose(1, 2).repeat_interleave(queries_of_key, 1));
    return heads;
  };
}

}  // namespace

HeadAttention::HeadAttention(const HeadSizes& sizes, const at::TensorOptions& options)
    : SharesTokens(sizes.num_heads),
      sizes_(sizes),
      norm_q_(sizes.width / sizes.num_heads, sizes.norm_eps, options),
      norm_k_(sizes.width / sizes.num_heads, sizes.norm_eps, options) {}

void HeadAttention::own_norms() {
  own(sizes_.names.norm_q, norm_q_);
  own(sizes_.names.norm_k, norm_k_);
}

nn::Tensors HeadAttention::in_heads(nn::Tensors projected) const {
  for (auto& heads : projected) heads = heads.unflatten(-1, {-1, sizes_.width / sizes_.num_heads});
  return projected;
}

at::Tensor HeadAttention::attended(const nn::Tensors& heads, const at::Tensor& cos_of_all, const at::Tensor& sin_of_all,
                                   const Attend& attention) const {
  const auto num_tokens = cos_of_all.size(-2), queries_of_key = sizes_.num_heads / sizes_.kv_heads();
  const auto cos = here(cos_of_all, -2), sin = here(sin_of_all, -2);
  const auto v_BHLP = heads[2].transpose(1, 2);
  nn::Tensors from{heads[0], heads[1], norm_q_.weight, norm_k_.weight, cos, sin};
  if (queries_of_key > 1) from.push_back(heads[2]);
  auto out = nn::recomputed(from, heads_by(sizes_.turn, queries_of_key, norm_q_.eps()), [&](const nn::Tensors& qk) {
    return nn::Tensors{attention_by(qk[0], qk[1], qk.size() > 2 ? qk[2] : v_BHLP, attention, num_tokens)};
  });
  return nn::merge_heads(out[0]);
}

SelfAttention::SelfAttention(const Sizes& sizes, const at::TensorOptions& options)
    : HeadAttention(sizes, options),
      q_(sizes.width, sizes.width, options, false),
      k_(sizes.width, sizes.kv_width(), options, false),
      v_(sizes.width, sizes.kv_width(), options, false),
      out_(sizes.width, sizes.width, options, false) {
  own(sizes.names.q, q_);
  own(sizes.names.k, k_);
  own(sizes.names.v, v_);
  own(sizes.names.out, out_);
  own_norms();
}

nn::Tensors SelfAttention::project(const at::Tensor& x_BLD) const { return in_heads(nn::forward_all({&q_, &k_, &v_}, x_BLD)); }

at::Tensor SelfAttention::attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const {
  return attend(projected, cos, sin,
                [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return nn::attention(q, k, v, bias); });
}

at::Tensor SelfAttention::attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin,
                                 const Attend& attention) const {
  return out_.forward(attended(projected, cos, sin, attention));
}

}  // namespace burnish::models
