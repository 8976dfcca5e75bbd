#pragma once
#include "models/blocks/cross_attention.h"
#include "models/blocks/gated_mlp.h"
#include "models/blocks/self_attention.h"
#include "models/families/longcat_video/config.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::longcat_video {

// Shape letters: B batch, L tokens of the clip, G tokens of frames that are given, T text tokens, D width, H heads, P rotated pairs of a
// head.

/// Rotary tables of tokens [L, P].
struct Places {
  at::Tensor cos_LP, sin_LP;
};

/// Attention of the clip's tokens to each other and to given ones, which attend to themselves alone.
class Attention : public HeadAttention {
 public:
  Attention(const Config& config, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, D/H]}.
  nn::Tensors project(const at::Tensor& x_BLD) const { return in_heads(nn::forward_all({&q_, &k_, &v_}, x_BLD)); }
  /// Attends by what `project` gives of given tokens, where there are any, and of the clip's behind them.
  at::Tensor attend(const nn::Tensors& projected, const Places& own, const Places* given) const;

 private:
  nn::Linear q_, k_, v_, out_;
};

/// A block of LongCat-Video (names of its LongCatSingleStreamBlock, but for layers of attention that are fused there).
///
/// Inputs of `body`: {tokens [B, L, D], modulation [B, 6 D] in fp32, text [B, T, D], bias [B, 1, 1, T], cos, sin [L, P]}, then where frames
/// are given their tokens [B, G, D], modulation [B, 6 D], cos and sin [G, P]. They come first in attention and do not see the text. cos and
/// sin are of all tokens, as they lie in their clip. -> {tokens}, or {tokens, given}.
class Block : public nn::Block {
 public:
  Block(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Attention attn_;
  nn::LayerNorm cross_norm_;
  CrossAttention cross_attn_;
  GatedMlp ffn_;
};

/// Is what norms of a token add to its variance.
inline constexpr double kTokenEps = 1e-6;

}  // namespace burnish::models::longcat_video
