#include "models/families/fibo2/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tanh.h>

#include "models/blocks/scaled_norm.h"

namespace burnish::models::fibo2 {

namespace {

/// Computes use(norm of x), the norm computed again in backward.
nn::Tensors normed(const at::Tensor& x, const nn::RMSNorm& norm, const std::function<nn::Tensors(const at::Tensor&)>& use) {
  return nn::recomputed({norm.weight, x}, scaled_norm_by(norm.eps(), false), [&](const nn::Tensors& values) { return use(values[0]); });
}

CrossAttention::Sizes reading_sizes(const Config& c) { return {c.blocks.width, c.caption_width, c.blocks.num_heads(), c.blocks.norm_eps}; }

}  // namespace

SandwichBlock::Sizes block_sizes(const BlockSizes& c) {
  return {.attention = {c.width, c.num_heads(), c.norm_eps},
          .hidden = c.hidden,
          .norm_eps = c.norm_eps,
          .condition_width = c.condition_width(),
          .modulation = "adaLN_modulation.0"};
}

ReadingBlock::ReadingBlock(const Config& c, const at::TensorOptions& options)
    : SandwichBlock(block_sizes(c.blocks), options),
      cross_attention_(reading_sizes(c), options),
      norm1_(c.blocks.width, c.blocks.norm_eps, options),
      norm2_(c.blocks.width, c.blocks.norm_eps, options),
      gate_(at::empty({1}, options)) {
  own("cross_attn_norm1", norm1_);
  own("cross_attention", cross_attention_);
  own("cross_attn_norm2", norm2_);
  own("cross_attn_gate", gate_);
}

nn::Tensors ReadingBlock::body(const nn::Tensors& in) {
  const bool is_masked = in.back().dim() == 4;
  const auto bias = is_masked ? in.back() : at::Tensor();
  const auto text = in.end() - (is_masked ? 2 : 1);
  return body_with({in.begin(), text}, [&](Runs& runs) {
    auto projected = normed(runs, norm1_, [&](const at::Tensor& x) { return nn::Tensors{cross_attention_.query(x)}; });
    for (const auto& of_text : cross_attention_.keys_and_values(*text)) projected.push_back(of_text);
    add(runs, cross_attention_.attend(projected, bias), norm2_, [&](const Run& run) {
      return at::tanh(gate_).expand({run.x_BLD.size(0), run.x_BLD.size(2)}).contiguous();
    });
  });
}

GistLayer::GistLayer(const Config& c, const at::TensorOptions& options)
    : to_text_(reading_sizes(c), options),
      to_itself_({c.blocks.width, c.blocks.width, c.blocks.num_heads(), c.blocks.norm_eps}, options),
      feed_forward_(c.blocks.width, c.blocks.hidden, options, {.gate = "w1", .up = "w3", .down = "w2"}),
      text_norm_(c.blocks.width, c.blocks.norm_eps, options),
      own_norm_(c.blocks.width, c.blocks.norm_eps, options),
      mlp_norm_(c.blocks.width, c.blocks.norm_eps, options) {
  own("cross_attn_norm", text_norm_);
  own("cross_attention", to_text_);
  own("self_attn_norm", own_norm_);
  own("self_attention", to_itself_);
  own("ffn_norm", mlp_norm_);
  own("ffn", feed_forward_);
}

nn::Tensors GistLayer::body(const nn::Tensors& in) {
  auto bias = [&](size_t i) { return in.size() > i ? in[i] : at::Tensor(); };
  auto projected = normed(in[0], text_norm_, [&](const at::Tensor& x) { return nn::Tensors{to_text_.query(x)}; });
  for (const auto& of_text : to_text_.keys_and_values(in[1])) projected.push_back(of_text);
  auto gist = in[0] + to_text_.attend(projected, bias(2));
  projected = normed(gist, own_norm_, [&](const at::Tensor& x) { return to_itself_.project(x); });
  gist = gist + to_itself_.attend(projected, bias(3));
  return {gist + normed(gist, mlp_norm_, [&](const at::Tensor& x) { return nn::Tensors{feed_forward_.forward(x)}; })[0]};
}

}  // namespace burnish::models::fibo2
