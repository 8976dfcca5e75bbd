#pragma once
#include "models/blocks/gated_mlp.h"
#include "models/families/krea2/config.h"
#include "nn/block.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::krea2 {

/// x / sqrt(mean(x²) + eps) · (1 + weight) over the last dimension, in fp32, in which the weight is held too.
class Norm : public nn::Module {
 public:
  Norm(int64_t dim, double eps, const at::TensorOptions& options);
  /// Tokens, and what modulates them: scale and shift [B, D], or neither.
  struct Modulated {
    at::Tensor x_BLD, scale = {}, shift = {};
  };
  /// Computes use(norm of x · (1 + scale) + shift), the norm computed again in backward (nn/recomputed_values.h). Several runs of tokens,
  /// of which all are modulated or none, are given to `use` one behind the other.
  nn::Tensors before(const std::function<nn::Tensors(const at::Tensor& normed)>& use, const std::vector<Modulated>& runs) const;
  at::Tensor weight;

 private:
  double eps_;
};

/// Runs self-attention with fewer heads of keys than of queries, a norm of every head's query and key, rotary positions, and a gate:
/// to_out(attended · sigmoid(to_gate x)).
class Attention : public nn::Module {
 public:
  Attention(const Stack& stack, double eps, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, P], gate [B, L, D]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives, query, key and value with as many heads, with `attention`; cos and sin [L, P/2] -> [B, L, D].
  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLP, const at::Tensor& k_BHLP, const at::Tensor& v_BHLP)>;
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos_LP, const at::Tensor& sin_LP, const Attend& attention) const;

 private:
  int64_t num_heads_, num_kv_heads_;
  double eps_;
  nn::Linear q_, k_, v_, gate_, out_;
  Norm norm_q_, norm_k_;
};

/// Runs attention without positions and an MLP, each behind a norm, over the states of one token or over the tokens of a text: {x [B,L,D],
/// and where tokens are masked attention's bias [B,1,1,L]} -> {x}.
class FusionBlock : public nn::Block {
 public:
  FusionBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Norm norm1_, norm2_;
  Attention attention_;
  GatedMlp feed_forward_;
};

/// Runs attention and an MLP over all tokens, modulated by what all blocks share plus a table of its own. {tokens [B,L,D], modulation
/// [B,6D], cos, sin [L,P], and where tokens are masked attention's bias} -> {tokens}. With a modulation [B,12D] there are tokens of two
/// kinds, each with its half: {tokens, modulation, cos, sin, the others behind them, bias} -> {tokens, others}. Where tokens are shared
/// out, they are this place's; cos, sin and bias are of all tokens in the order of places (nn/token_shares.h).
class MainBlock : public nn::Block, public nn::SharesTokens {
 public:
  MainBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  at::Tensor table_;  ///< [6, D]
  Norm norm1_, norm2_;
  Attention attention_;
  GatedMlp feed_forward_;
};

}  // namespace burnish::models::krea2
