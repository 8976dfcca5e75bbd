#include "models/ernie_image/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"
#include "nn/remade.h"

namespace burnish::models::ernie_image {

namespace {

/// {x [B, L, D], weight of an RMS norm [D], scale, shift [B, D]} -> the norm of x, scaled and shifted in fp32.
nn::Compute modulated_by(double eps) {
  return [eps](const nn::Tensors& in) {
    auto normed = at::rms_norm(in[0], in[1].sizes(), in[1], eps).to(at::kFloat);
    auto moved = normed * (in[2].to(at::kFloat) + 1).unsqueeze(1) + in[3].to(at::kFloat).unsqueeze(1);
    return nn::Tensors{moved.to(in[0].scalar_type())};
  };
}

/// x cos + (-second half, first half) sin, in fp32, behind an RMS norm: [B, L, H, P] -> [B, H, L, P]. Rows of cos and sin are as wide as a
/// head, and their halves differ.
at::Tensor placed(const at::Tensor& x_BLHP, const at::Tensor& weight, const at::Tensor& cos, const at::Tensor& sin, double eps) {
  auto normed = at::rms_norm(x_BLHP, weight.sizes(), weight, eps).transpose(1, 2).to(at::kFloat);
  auto halves = normed.chunk(2, -1);
  auto over_heads = [](const at::Tensor& table) { return table.dim() == 3 ? table.unsqueeze(1) : table; };
  auto crossed = at::cat({-halves[1], halves[0]}, -1);
  return (normed * over_heads(cos) + crossed * over_heads(sin)).to(x_BLHP.scalar_type());
}

/// {query, key [B, L, H, P], weights of their norms, cos, sin} -> {query, key [B, H, L, P]}, ready for attention.
nn::Compute heads_by(double eps) {
  return [eps](const nn::Tensors& in) {
    return nn::Tensors{placed(in[0], in[2], in[4], in[5], eps), placed(in[1], in[3], in[4], in[5], eps)};
  };
}

}  // namespace

SelfAttention::SelfAttention(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads()),
      num_heads_(c.num_heads()),
      q_(c.width, c.width, options, false),
      k_(c.width, c.width, options, false),
      v_(c.width, c.width, options, false),
      out_(c.width, c.width, options, false),
      norm_q_(c.head_dim, c.norm_eps, options),
      norm_k_(c.head_dim, c.norm_eps, options) {
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
  const auto v_BHLP = projected[2].transpose(1, 2);
  auto attended = nn::remade({projected[0], projected[1], norm_q_.weight, norm_k_.weight, cos, sin}, heads_by(norm_q_.eps()),
                             [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v_BHLP, bias, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

Block::Block(const Config& c, const at::TensorOptions& options)
    : attention_norm_(c.width, c.norm_eps, options),
      mlp_norm_(c.width, c.norm_eps, options),
      attention_(c, options),
      mlp_(c.width, c.hidden, options, {.gate = "gate_proj", .up = "up_proj", .down = "linear_fc2"}, GatedMlp::Gate::gelu) {
  own("adaLN_sa_ln", attention_norm_);
  own("self_attention", attention_);
  own("adaLN_mlp_ln", mlp_norm_);
  own("mlp", mlp_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto m = in[3].chunk(6, -1);  // shift, scale and gate of attention, then of the MLP
  const auto bias = in.size() > 4 ? in[4] : at::Tensor();
  auto before = [](const at::Tensor& x_BLD, const nn::RMSNorm& norm, const at::Tensor& scale, const at::Tensor& shift, const auto& use) {
    return nn::remade({x_BLD, norm.weight, scale, shift}, modulated_by(norm.eps()),
                      [&](const nn::Tensors& moved) { return use(moved[0]); });
  };
  auto projected = before(in[0], attention_norm_, m[1], m[0], [&](const at::Tensor& x) { return attention_.project(x); });
  auto mid = kernels::gated_residual(in[0], m[2], attention_.attend(projected, in[1], in[2], bias));
  auto moved = before(mid, mlp_norm_, m[4], m[3], [&](const at::Tensor& x) { return nn::Tensors{mlp_.forward(x)}; });
  return {kernels::gated_residual(mid, m[5], moved[0])};
}

}  // namespace burnish::models::ernie_image
