#include "models/families/anima/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/rms_norm.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "models/blocks/mmdit.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::anima {

namespace {

constexpr Attention::Names kInBlock{"to_q", "to_k", "to_v", "to_out.0", "norm_q", "norm_k"};
constexpr Attention::Names kInConditioner{"q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm"};
constexpr Mlp::Names kMlpOfBlock{"net.0.proj", "net.2", false}, kMlpOfConditioner{"0", "2", true};

/// The numbers of heads with those of a pair beside each other. Turned alike, query and key have the same products in any order.
at::Tensor by_pairs(const at::Tensor& x) { return x.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2); }

/// A query or a key [B, L, H·2P] and its norm's weight, and where they turn cos and sin -> [B, H, L, 2P], ready for attention.
at::Tensor heads_of(int64_t num_heads, const nn::Tensors& in) {
  const auto x_BLHE = in[0].unflatten(-1, {num_heads, -1});
  if (in.size() == 2) return at::rms_norm(x_BLHE, in[1].sizes(), in[1], kNormEps).transpose(1, 2);
  return kernels::qk_norm_rope(by_pairs(x_BLHE), by_pairs(in[1]), in[2], in[3], kNormEps);
}

/// {query, what heads_of reads beside it, key, what it reads beside that} -> {query, key} of heads.
nn::Compute both_by(int64_t num_heads, size_t num_of_query) {
  return [=](const nn::Tensors& in) {
    const auto key = in.begin() + static_cast<std::ptrdiff_t>(num_of_query);
    return nn::Tensors{heads_of(num_heads, {in.begin(), key}), heads_of(num_heads, {key, in.end()})};
  };
}

/// A norm's result, computed again in backward, and what `use` makes of it.
nn::Tensors behind(const nn::RMSNorm& norm, const at::Tensor& x, const std::function<nn::Tensors(const at::Tensor& normed)>& use) {
  auto normed = [eps = norm.eps()](const nn::Tensors& in) { return nn::Tensors{at::rms_norm(in[0], in[1].sizes(), in[1], eps)}; };
  return nn::recomputed({x, norm.weight}, normed, [&](const nn::Tensors& values) { return use(values[0]); });
}

}  // namespace

Mlp::Mlp(int64_t width, int64_t hidden, const at::TensorOptions& options, const Names& names)
    : up_(width, hidden, options, names.with_biases), down_(hidden, width, options, names.with_biases) {
  own(names.up, up_);
  own(names.down, down_);
}

at::Tensor Mlp::forward(const at::Tensor& x) const {
  auto layers = [this](const nn::Tensors& in) {
    return nn::recomputed(
        {up_.forward(in[0])}, [](const nn::Tensors& hidden) { return at::gelu(hidden[0]); },
        [&](const at::Tensor& activated) { return down_.forward(activated); });
  };
  return nn::by_tokens({{x}}, 1, tokens_at_once, layers, /*has_parameters=*/true);
}

Attention::Attention(const Sizes& c, const at::TensorOptions& options, const Names& names)
    : num_heads_(c.num_heads),
      q_(c.width, c.num_heads * c.head_dim, options, false),
      k_(c.source_width, c.num_heads * c.head_dim, options, false),
      v_(c.source_width, c.num_heads * c.head_dim, options, false),
      out_(c.num_heads * c.head_dim, c.width, options, false),
      norm_q_(c.head_dim, kNormEps, options),
      norm_k_(c.head_dim, kNormEps, options) {
  own(names.q, q_);
  own(names.k, k_);
  own(names.v, v_);
  own(names.out, out_);
  own(names.norm_q, norm_q_);
  own(names.norm_k, norm_k_);
}

at::Tensor Attention::attend(const nn::Tensors& qkv, const Turns& of_query, const Turns& of_key, const Attend& attention) const {
  nn::Tensors from;
  auto add = [&](const at::Tensor& x, const nn::RMSNorm& norm, const Turns& turns) {
    from.insert(from.end(), {x, norm.weight});
    if (turns.cos_LP.defined()) from.insert(from.end(), {turns.cos_LP, turns.sin_LP});
    return from.size();
  };
  const auto num_of_query = add(qkv[0], norm_q_, of_query);
  add(qkv[1], norm_k_, of_key);
  const auto v = nn::split_heads(qkv[2], num_heads_);
  auto attended = nn::recomputed(from, both_by(num_heads_, num_of_query),
                                 [&](const nn::Tensors& qk) { return nn::Tensors{attention(qk[0], qk[1], v)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

Block::Block(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      attn1_({c.width(), c.width(), c.num_heads, c.head_dim}, options, kInBlock),
      attn2_({c.width(), c.caption_width, c.num_heads, c.head_dim}, options, kInBlock),
      feed_forward_(c.width(), c.hidden, options, kMlpOfBlock) {
  own("attn1", attn1_);
  own("attn2", attn2_);
  own("ff", feed_forward_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto &text = in[2], &bias = in[3];
  const auto num_tokens = in[4].size(0);
  const Turns turns{here(in[4], 0), here(in[5], 0)};
  const auto m = in[1].chunk(kModulations, -1);  // shift, scale and gate of each norm
  auto x = in[0];
  auto normed = [&](size_t norm, const std::function<nn::Tensors(const at::Tensor&)>& use) {
    return nn::recomputed({x, m[3 * norm + 1], m[3 * norm]}, mmdit::normed_by, [&](const nn::Tensors& values) { return use(values[0]); });
  };
  auto qkv = normed(0, [&](const at::Tensor& y) { return attn1_.project(y); });
  x = kernels::gated_residual(x, m[2], attn1_.attend(qkv, turns, turns, [&](const auto& q, const auto& k, const auto& v) {
    return attention_of(q, k, v, {}, num_tokens);
  }));
  // The text is whole in every place, so that attention to it needs no exchange.
  qkv = normed(1, [&](const at::Tensor& y) { return attn2_.project_query(y); });
  for (auto& of_text : attn2_.project_source(text)) qkv.push_back(std::move(of_text));
  x = kernels::gated_residual(
      x, m[5], attn2_.attend(qkv, {}, {}, [&](const auto& q, const auto& k, const auto& v) { return nn::attention(q, k, v, bias); }));
  auto y = normed(2, [&](const at::Tensor& values) { return nn::Tensors{feed_forward_.forward(values)}; });
  return {kernels::gated_residual(x, m[8], y[0])};
}

ConditionerBlock::ConditionerBlock(const ConditionerConfig& c, const at::TensorOptions& options)
    : norm_self_(c.width, kNormEps, options),
      norm_cross_(c.width, kNormEps, options),
      norm_mlp_(c.width, kNormEps, options),
      self_({c.width, c.width, c.num_heads, c.head_dim()}, options, kInConditioner),
      cross_({c.width, c.source_width, c.num_heads, c.head_dim()}, options, kInConditioner),
      mlp_(c.width, c.hidden, options, kMlpOfConditioner) {
  own("norm_self_attn", norm_self_);
  own("self_attn", self_);
  own("norm_cross_attn", norm_cross_);
  own("cross_attn", cross_);
  own("norm_mlp", norm_mlp_);
  own("mlp", mlp_);
}

nn::Tensors ConditionerBlock::body(const nn::Tensors& in) {
  const Turns own{in[2], in[3]}, of_source{in[4], in[5]};
  const bool is_masked = in.size() > 6;
  auto attending = [&](size_t bias) {
    return [&, bias](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
      return nn::attention(q, k, v, is_masked ? in[bias] : at::Tensor());
    };
  };
  auto x = in[0];
  auto qkv = behind(norm_self_, x, [&](const at::Tensor& normed) { return self_.project(normed); });
  x = x + self_.attend(qkv, own, own, attending(6));
  qkv = behind(norm_cross_, x, [&](const at::Tensor& normed) { return cross_.project_query(normed); });
  for (auto& of_that : cross_.project_source(in[1])) qkv.push_back(std::move(of_that));
  x = x + cross_.attend(qkv, own, of_source, attending(7));
  return {x + behind(norm_mlp_, x, [&](const at::Tensor& normed) { return nn::Tensors{mlp_.forward(normed)}; })[0]};
}

}  // namespace burnish::models::anima
