#include "models/blocks/sandwich_block.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/recomputed_values.h"

namespace burnish::models {

namespace {

/// {x [B, L, D], weight of an RMS norm [D]} -> the norm of x; times 1 + scale where a scale [B, D] is third.
nn::Compute scaled_norm_by(double eps) {
  return [eps](const nn::Tensors& in) {
    auto normed = at::rms_norm(in[0], in[1].sizes(), in[1], eps);
    return nn::Tensors{in.size() > 2 ? normed * (in[2] + 1).unsqueeze(1) : normed};
  };
}

}  // namespace

SandwichBlock::SandwichBlock(const Sizes& sizes, const at::TensorOptions& options)
    : attention_(sizes.attention, options),
      feed_forward_(sizes.attention.width, sizes.hidden, options, {.gate = "w1", .up = "w3", .down = "w2"}),
      attention_norm1_(sizes.attention.width, sizes.norm_eps, options),
      attention_norm2_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm1_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm2_(sizes.attention.width, sizes.norm_eps, options) {
  own("attention", attention_);
  own("feed_forward", feed_forward_);
  own("attention_norm1", attention_norm1_);
  own("attention_norm2", attention_norm2_);
  own("ffn_norm1", ffn_norm1_);
  own("ffn_norm2", ffn_norm2_);
  if (sizes.condition_width == 0) return;
  modulation_ = std::make_unique<nn::Linear>(sizes.condition_width, 4 * sizes.attention.width, options);
  own(sizes.modulation, *modulation_);
}

nn::Tensors SandwichBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &cos = in[1], &sin = in[2];
  const size_t num_fixed = modulation_ ? 4 : 3;
  auto bias = in.size() > num_fixed ? in[num_fixed] : at::Tensor();
  nn::Tensors m;  // scale and gate of attention, scale and gate of the MLP
  if (modulation_) m = modulation_->forward(in[3]).chunk(4, -1);
  auto before = [&](const at::Tensor& x_BLD, const nn::RMSNorm& norm, size_t scale, const auto& use) {
    nn::Tensors from{x_BLD, norm.weight};
    if (modulation_) from.push_back(m[scale]);
    return nn::recomputed(from, scaled_norm_by(norm.eps()), [&](const nn::Tensors& normed) { return use(normed[0]); });
  };
  auto added = [&](const at::Tensor& x_BLD, const at::Tensor& y_BLD, const nn::RMSNorm& norm, size_t gate) {
    return nn::recomputed({y_BLD, norm.weight}, scaled_norm_by(norm.eps()), [&](const nn::Tensors& normed) {
      return nn::Tensors{modulation_ ? kernels::gated_residual(x_BLD, at::tanh(m[gate]), normed[0]) : x_BLD + normed[0]};
    })[0];
  };
  auto projected = before(x, attention_norm1_, 0, [&](const at::Tensor& normed) { return attention_.project(normed); });
  auto mid = added(x, attention_.attend(projected, cos, sin, bias), attention_norm2_, 1);
  auto moved = before(mid, ffn_norm1_, 2, [&](const at::Tensor& normed) { return nn::Tensors{feed_forward_.forward(normed)}; });
  return {added(mid, moved[0], ffn_norm2_, 3)};
}

}  // namespace burnish::models
