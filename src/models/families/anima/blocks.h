#pragma once
#include <functional>

#include "models/families/anima/config.h"
#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::anima {

// Shape letters: B batch, L tokens, S tokens that are attended to, D their width, E that of the others, H heads, P pairs of a head that
// turn.

/// Runs linear, GELU, linear.
class Mlp : public nn::Module, public nn::GoesByTokens {
 public:
  struct Names {
    const char *up, *down;
    bool with_biases;
  };
  Mlp(int64_t width, int64_t hidden, const at::TensorOptions& options, const Names& names);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear up_, down_;
};

/// The turns of tokens in their places: cos and sin [L, P]. Undefined: none.
struct Turns {
  at::Tensor cos_LP, sin_LP;
};

/// Attention with a norm of every head's query and key, whose pairs are (x_i, x_(i + P)).
class Attention : public nn::Module {
 public:
  struct Names {
    const char *q, *k, *v, *out, *norm_q, *norm_k;
  };
  struct Sizes {
    int64_t width, source_width, num_heads, head_dim;
  };
  Attention(const Sizes& sizes, const at::TensorOptions& options, const Names& names);
  /// Projects x [B, L, D] -> {query, key, value}, for attention of tokens to themselves.
  nn::Tensors project(const at::Tensor& x_BLD) const { return nn::forward_all({&q_, &k_, &v_}, x_BLD); }
  /// Projects x [B, L, D] -> {query}, and what is attended to [B, S, E] -> {key, value}.
  nn::Tensors project_query(const at::Tensor& x_BLD) const { return {q_.forward(x_BLD)}; }
  nn::Tensors project_source(const at::Tensor& source_BSE) const { return nn::forward_all({&k_, &v_}, source_BSE); }
  /// Attends by `attention` with what was projected -> [B, L, D].
  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLP, const at::Tensor& k_BHSP, const at::Tensor& v_BHSP)>;
  at::Tensor attend(const nn::Tensors& qkv, const Turns& of_query, const Turns& of_key, const Attend& attention) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// A block of the transformer: attention of tokens to each other and to a text, and an MLP, each behind a norm that is modulated (names of
/// diffusers' CosmosTransformerBlock). Inputs of `body`: {tokens [B,L,D], modulation [B,9D], text [B,S,E], bias of attention to it
/// [B,1,1,S], cos, sin [L,P]} -> {tokens}. Where tokens are shared out, they are this place's; cos and sin are of all tokens in the order
/// of places (nn/token_shares.h).
class Block : public nn::Block, public nn::SharesTokens {
 public:
  Block(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Attention attn1_, attn2_;
  Mlp feed_forward_;
};

/// The number of parts of the tokens' width that modulate a block: shift, scale and gate of each norm.
inline constexpr int64_t kModulations = 9;
inline constexpr double kNormEps = 1e-6;

/// A block of the conditioner: attention of tokens to each other and to a source, and an MLP, each behind a norm. Inputs of `body`: {tokens
/// [B,L,D], source [B,S,E], cos, sin [L,P], cos, sin of the source [S,P], and where tokens are masked biases of attention to both
/// [B,1,1,L], [B,1,1,S]} -> {tokens}.
class ConditionerBlock : public nn::Block {
 public:
  ConditionerBlock(const ConditionerConfig& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::RMSNorm norm_self_, norm_cross_, norm_mlp_;
  Attention self_, cross_;
  Mlp mlp_;
};

}  // namespace burnish::models::anima
