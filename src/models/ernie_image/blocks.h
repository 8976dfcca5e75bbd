#pragma once
#include "models/ernie_image/config.h"
#include "models/gated_mlp.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::ernie_image {

// Shape letters: B batch, L tokens, D width, H heads, P width of a head.

/// Runs self-attention with an RMS norm of every head's query and key, and positions.
class SelfAttention : public nn::Module, public nn::SharesTokens {
 public:
  SelfAttention(const Config& c, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, P]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives; cos and sin [L, P] or [B, L, P]; bias [B, 1, 1, L] on the keys, or undefined -> [B, L, D]. Where
  /// tokens are shared out, cos, sin and bias are of all of them, in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Runs attention and MLP, each behind an RMS norm, a scale and a shift, and before a gate; all blocks share these six.
/// {tokens [B,L,D], cos, sin, shift, scale and gate of attention and of the MLP [B,6D], and where tokens are masked attention's bias} ->
/// {tokens}.
class Block : public nn::Block {
 public:
  Block(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::RMSNorm attention_norm_, mlp_norm_;
  SelfAttention attention_;
  GatedMlp mlp_;
};

}  // namespace burnish::models::ernie_image
