#include "models/blocks/sandwich_block.h"

#include "models/blocks/scaled_norm.h"

namespace burnish::models {

SandwichBlock::SandwichBlock(const Sizes& sizes, const at::TensorOptions& options)
    : attention_(sizes.attention, options),
      feed_forward_(sizes.attention.width, sizes.hidden, options, sizes.names.in_mlp),
      attention_norm1_(sizes.attention.width, sizes.norm_eps, options),
      attention_norm2_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm1_(sizes.attention.width, sizes.norm_eps, options),
      ffn_norm2_(sizes.attention.width, sizes.norm_eps, options),
      is_modulated_(sizes.condition_width > 0 || sizes.is_given_modulation) {
  own(sizes.names.attention, attention_);
  own(sizes.names.mlp, feed_forward_);
  own(sizes.names.attention_norm1, attention_norm1_);
  own(sizes.names.attention_norm2, attention_norm2_);
  own(sizes.names.ffn_norm1, ffn_norm1_);
  own(sizes.names.ffn_norm2, ffn_norm2_);
  if (sizes.condition_width == 0) return;
  modulation_ = std::make_unique<nn::Linear>(sizes.condition_width, 4 * sizes.attention.width, options);
  own(sizes.modulation, *modulation_);
}

nn::Tensors SandwichBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &cos = in[1], &sin = in[2];
  const size_t num_fixed = is_modulated_ ? 4 : 3;
  auto bias = in.size() > num_fixed ? in[num_fixed] : at::Tensor();
  nn::Tensors m(4);  // scale and gate of attention, scale and gate of the MLP
  if (is_modulated_) m = (modulation_ ? modulation_->forward(in[3]) : in[3]).chunk(4, -1);
  auto before = [&](const at::Tensor& x_BLD, const nn::RMSNorm& norm, size_t scale, const auto& use) {
    nn::Tensors from{x_BLD, norm.weight};
    if (is_modulated_) from.push_back(m[scale]);
    return nn::recomputed(from, scaled_norm_by(norm.eps()), [&](const nn::Tensors& normed) { return use(normed[0]); });
  };
  auto added = [&](const at::Tensor& x_BLD, const at::Tensor& y_BLD, const nn::RMSNorm& norm, size_t gate) {
    return with_normed(x_BLD, y_BLD, norm.weight, norm.eps(), m[gate]);
  };
  auto projected = before(x, attention_norm1_, 0, [&](const at::Tensor& normed) { return attention_.project(normed); });
  auto mid = added(x, attention_.attend(projected, cos, sin, bias), attention_norm2_, 1);
  auto moved = before(mid, ffn_norm1_, 2, [&](const at::Tensor& normed) { return nn::Tensors{feed_forward_.forward(normed)}; });
  return {added(mid, moved[0], ffn_norm2_, 3)};
}

}  // namespace burnish::models
