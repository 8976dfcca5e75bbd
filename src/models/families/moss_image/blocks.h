#pragma once
#include "models/blocks/self_attention.h"
#include "models/families/moss_image/config.h"
#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::moss_image {

/// The number under the root of all norms.
inline constexpr double kNormEps = 1e-6;

// Shape letters: B batch, T text tokens, L tokens of text and picture, R tokens of reference pictures, D width, P width of a head.

/// Runs attention and MLP, each behind an RMS norm, a scale and a shift, and before a gate; all blocks share these six. References see
/// references alone and have six of their own, text and picture see everything.
///
/// {tokens [B,L,D], shift, scale and gate of attention and of the MLP [B,6D], with references also theirs [B,12D], cos, sin [L,P] or
/// [B,L,P], where there are references also {references [B,R,D], their cos, sin}, and where tokens are masked attention's bias [B,1,1,R+L],
/// references first} -> {tokens}, and {references} behind them. Where tokens are shared out, tokens and references are this place's, and
/// tables and bias those of all, in their order.
class Block : public nn::Block, public nn::SharesTokens, public nn::GoesByTokens {
 public:
  Block(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  at::Tensor feed_forward(const at::Tensor& x_BLD) const;
  at::Tensor attend(const nn::Tensors& projected, const nn::Tensors& inputs, const at::Tensor& bias) const;

  double eps_;
  nn::RMSNorm attention_norm_, mlp_norm_;
  SelfAttention attention_;
  nn::Linear up_gate_, down_;
};

/// The block of the text alone, with biases and without modulation. {tokens [B,T,D], cos, sin [T,P/2], and where tokens are masked
/// attention's bias [B,1,1,T]} -> {tokens}.
class TextBlock : public nn::Block {
 public:
  TextBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  int64_t num_heads_;
  nn::RMSNorm attention_norm_, mlp_norm_, norm_q_, norm_k_;
  nn::Linear qkv_, out_, gate_, up_, down_;
};

}  // namespace burnish::models::moss_image
