#include "models/families/qwen_image_21/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::qwen_image_21 {

namespace {

constexpr size_t kFirstBias = 5;  ///< where biases begin among a block's inputs

/// {condition, its scale [B, D], target, its scale} -> the norms of both, scaled, one behind the other.
nn::Compute scaled_by(double eps) {
  return [eps](const nn::Tensors& in) {
    nn::Tensors runs;
    for (size_t i = 0; i < in.size(); i += 2) runs.push_back(kernels::modulated_norm(in[i], in[i + 1], at::zeros_like(in[i + 1]), eps));
    return nn::Tensors{at::cat(runs, 1)};
  };
}

/// {query, key [B, L, H, P], weights of their norms, cos, sin} -> {query, key [B, H, L, P]}, ready for attention.
nn::Compute heads_by(double eps) {
  return [eps](const nn::Tensors& in) {
    return nn::Tensors{kernels::qk_norm_rope(in[0], in[2], in[4], in[5], eps), kernels::qk_norm_rope(in[1], in[3], in[4], in[5], eps)};
  };
}

/// Attention of all tokens [B, H, L, P] in their order, text by text and picture by picture.
at::Tensor attention_by_parts(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const nn::Tensors& inputs) {
  nn::Tensors parts;
  int64_t done = 0;
  auto add = [&](int64_t end, int64_t end_of_seen, const at::Tensor& bias) {
    if (end > done)
      parts.push_back(
          nn::attention(q.narrow(2, done, end - done), k.narrow(2, 0, end_of_seen), v.narrow(2, 0, end_of_seen), bias).transpose(1, 2));
    done = end;
  };
  at::Tensor of_target;
  const auto num_tokens = q.size(2);
  for (size_t i = kFirstBias; i < inputs.size(); ++i) {
    const auto& bias = inputs[i];
    if (const auto end = bias.size(-1); end < num_tokens) {
      const auto first = end - bias.size(-2);
      add(first, first, {});  // a picture
      add(end, end, bias);
    } else {
      of_target = bias;
    }
  }
  add(num_tokens, num_tokens, of_target);
  return at::cat(parts, 1).transpose(1, 2);  // with a token's heads side by side, as they are merged
}

}  // namespace

Block::Block(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      num_heads_(c.num_heads),
      eps_(c.norm_eps),
      q_(c.width(), c.width(), options, false),
      k_(c.width(), c.width(), options, false),
      v_(c.width(), c.width(), options, false),
      out_(c.width(), c.width(), options, false),
      norm_q_(c.head_dim, c.norm_eps, options),
      norm_k_(c.head_dim, c.norm_eps, options),
      mlp_(c.width(), c.hidden, options, {.gate = "gate_layer", .up = "proj", .down = "out"}) {
  own("attn.to_q", q_);
  own("attn.to_k", k_);
  own("attn.to_v", v_);
  own("attn.to_out.0", out_);
  own("attn.norm_q", norm_q_);
  own("attn.norm_k", norm_k_);
  own("img_mlp", mlp_);
}

nn::Tensors Block::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_}, x_BLD);
  for (auto& heads : all) heads = heads.unflatten(-1, {num_heads_, -1});
  return all;
}

at::Tensor Block::attend(const nn::Tensors& projected, const nn::Tensors& in) const {
  const auto &cos = in[3], &sin = in[4];
  const auto num_tokens = cos.size(-2);
  // The last text's bias ends where the target begins.
  int64_t num_condition = 0;
  for (size_t i = kFirstBias; i < in.size(); ++i) num_condition = in[i].size(-1) < num_tokens ? in[i].size(-1) : num_condition;
  const nn::Streams streams(shares(), {num_condition, num_tokens - num_condition});
  auto attend_all = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    auto ordered = [&](const at::Tensor& x) { return streams.in_order(x, 2); };
    return streams.by_place(attention_by_parts(ordered(q), ordered(k), ordered(v), in), 2);
  };
  const auto v_BHLP = projected[2].transpose(1, 2);
  auto attended =
      nn::recomputed({projected[0], projected[1], norm_q_.weight, norm_k_.weight, here(cos, -2), here(sin, -2)}, heads_by(eps_),
                     [&](const nn::Tensors& qk) { return nn::Tensors{attention_by(qk[0], qk[1], v_BHLP, attend_all, num_tokens)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto m = in[2].chunk(8, -1);
  nn::Tensors runs{in[0], in[1]};
  auto part = [&](size_t run, size_t number) { return m[run == 0 ? 4 + number : number]; };
  auto normed = [&](size_t scale, const auto& use) {
    return nn::recomputed({runs[0], part(0, scale), runs[1], part(1, scale)}, scaled_by(eps_),
                          [&](const nn::Tensors& x) { return use(x[0]); });
  };
  auto add = [&](size_t gate, const at::Tensor& y) {
    int64_t begin = 0;
    for (size_t run = 0; run < 2; ++run) {
      const auto count = runs[run].size(1);
      runs[run] = kernels::gated_residual(runs[run], part(run, gate), y.narrow(1, begin, count).contiguous());
      begin += count;
    }
  };
  add(1, attend(normed(0, [&](const at::Tensor& x) { return project(x); }), in));
  add(3, normed(2, [&](const at::Tensor& x) { return nn::Tensors{mlp_.forward(x)}; })[0]);
  return runs;
}

}  // namespace burnish::models::qwen_image_21
