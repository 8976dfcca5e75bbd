#pragma once
#include "models/blocks/gated_mlp.h"
#include "models/blocks/sandwich_block.h"
#include "models/families/boogu/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::boogu {

// Shape letters: B batch, T text tokens, I picture tokens (reference pictures, then the target), L = T + I, D width, P rotated pairs.

/// Returns the sizes of a block of one stream, which is given its modulation, or of the text alone, which has none.
SandwichBlock::Sizes single_block(const Config& c, bool is_modulated);

/// Attends over text and picture together: each has its own layers of queries, keys and values and a layer of its own behind attention,
/// then one that they share.
class JointAttention : public HeadAttention {
 public:
  JointAttention(const Config& c, const at::TensorOptions& options);
  enum class Stream { text, picture };
  /// Projects tokens of a stream [B, n, D] -> {query, key, value [B, n, H, P]}.
  nn::Tensors project(Stream stream, const at::Tensor& x_BnD) const;
  /// Attends by what `project` gave of text and picture; cos, sin and bias as SelfAttention takes them -> {text [B,T,D], picture [B,I,D]}.
  nn::Tensors attend(const nn::Tensors& text, const nn::Tensors& picture, const at::Tensor& cos, const at::Tensor& sin,
                     const at::Tensor& bias) const;

 private:
  nn::Linear out_;
  nn::Linear picture_q_, picture_k_, picture_v_, text_q_, text_k_, text_v_, text_out_, picture_out_;
};

/// Runs a block of two streams: both attend together, the picture attends to itself beside that, and each has an MLP, which reads the
/// tokens from before all attention. {picture [B,I,D], text [B,T,D], modulation [B,14D], cos, sin [L,P] or [B,L,P], where tokens are shared
/// out the places of the picture's tokens among all [I], and where texts are padded attention's bias} -> {picture, text}. Modulation is of
/// the picture's joint attention and MLP (scale, gate, scale, gate), of its MLP's first norm (scale, shift), of its attention to itself
/// (scale, gate), then of the text's joint attention and MLP, and of its MLP's first norm. Where tokens are shared out, both are this
/// place's, and cos, sin, places and bias are of all tokens in the order of places (nn/token_shares.h).
class DoubleBlock : public nn::Block, public nn::SharesTokens {
 public:
  static constexpr int64_t kNumModulations = 14;
  DoubleBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  /// The norms of a stream and its MLP; of the text those of attention to itself are missing.
  struct StreamLayers {
    StreamLayers(const Config& c, const at::TensorOptions& options);
    nn::RMSNorm norm1, norm2, ffn_norm1, attn_norm, ffn_norm2;
    GatedMlp feed_forward;
  };
  void own_stream(const std::string& name, StreamLayers& layers);
  at::Tensor attended_by_itself(const at::Tensor& picture, const nn::Tensors& m, const nn::Tensors& inputs) const;
  static at::Tensor with_mlp(const StreamLayers& layers, const at::Tensor& before, const at::Tensor& x, const nn::Tensors& m, size_t first);

  StreamLayers picture_, text_;
  nn::RMSNorm picture_norm3_, self_norm_;
  JointAttention joint_;
  SelfAttention self_;
};

}  // namespace burnish::models::boogu
