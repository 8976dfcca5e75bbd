#pragma once
#include "models/blocks/gated_mlp.h"
#include "models/families/qwen_image_21/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::qwen_image_21 {

// Shape letters: B batch, C tokens of text and reference pictures, which are the condition, I tokens of the target, L = C + I, D width, H
// heads, P width of a head.

/// Runs self-attention and an MLP, each behind a layer norm and a scale, and before a gate; all blocks share these four. The target sees
/// everything; a text's token sees what stands before it, and a reference picture's what stands before that picture, and the picture.
///
/// {condition [B,C,D], target [B,I,D], scale and gate of attention and of the MLP for the target, then for the condition [B,8D], cos, sin
/// [L,P/2] or [B,L,P/2], biases of attention [1,1,n,m], and where tokens are masked the target's [B,1,1,L]} -> {condition, target}. A bias
/// [1,1,n,m] is of the n tokens of a text up to token m; between two such texts a reference picture lies. Where tokens are shared out,
/// condition and target are this place's, cos and sin of all tokens in the order of places (nn/token_shares.h), and biases of all tokens in
/// theirs.
class Block : public nn::Block, public nn::SharesTokens {
 public:
  Block(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::Tensors project(const at::Tensor& x_BLD) const;
  at::Tensor attend(const nn::Tensors& projected, const nn::Tensors& inputs) const;

  int64_t num_heads_;
  double eps_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
  GatedMlp mlp_;
};

}  // namespace burnish::models::qwen_image_21
