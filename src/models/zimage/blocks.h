#pragma once
#include "models/gated_mlp.h"
#include "models/zimage/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::zimage {

/// Runs self-attention with an RMS norm of every head's query and key, and rotary positions.
class SelfAttention : public nn::Module, public nn::SharesTokens {
 public:
  SelfAttention(const Config& c, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, D]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives; cos and sin [L, P] or [B, L, P]; bias [B, 1, 1, L] on the keys, or undefined -> [B, L, D]. Where
  /// tokens are shared out, cos, sin and bias are of all of them, in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Runs attention and MLP, each between two RMS norms: x + tanh(gate) · norm2(f(norm1(x) (1 + scale))). Captions have no scales and gates.
/// {tokens [B,L,D], cos, sin, conditioning [B,C] where modulated, and where tokens are masked attention's bias} -> {tokens}.
class RefinedBlock : public nn::Block {
 public:
  RefinedBlock(const Config& c, bool modulated, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  SelfAttention attention_;
  GatedMlp feed_forward_;
  nn::RMSNorm attention_norm1_, attention_norm2_, ffn_norm1_, ffn_norm2_;
  std::unique_ptr<nn::Linear> modulation_;
};

}  // namespace burnish::models::zimage
