#pragma once
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models {

/// Runs self-attention with an RMS norm of every head's query and key, and rotary positions. Shape letters: B batch, L tokens, D width, H
/// heads, P width of a head.
class SelfAttention : public nn::Module, public nn::SharesTokens {
 public:
  enum class Turn {
    pairs,  ///< numbers 2i and 2i + 1 of a head turn together; cos and sin have a number for each pair
    halves  ///< numbers i and i + P/2, each with a number of its own in cos and sin, computed in fp32
  };
  /// The names of its layers.
  struct Names {
    const char *q = "to_q", *k = "to_k", *v = "to_v", *out = "to_out.0", *norm_q = "norm_q", *norm_k = "norm_k";
  };
  struct Sizes {
    int64_t width, num_heads;
    double norm_eps;
    Turn turn = Turn::pairs;
    Names names = {};
  };
  using SharesTokens::Attend;
  SelfAttention(const Sizes& sizes, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, P]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives; cos and sin [L, P or P/2], of several samples [B, L, P or P/2]; bias [B, 1, 1, L] on the keys, or
  /// undefined -> [B, L, D]. Where tokens are shared out, cos, sin and bias are of all of them, in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const;
  /// Computes another attention, which is given query, key and value of all tokens [B, H, L, P], in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const Attend& attention) const;

 private:
  int64_t num_heads_;
  Turn turn_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

}  // namespace burnish::models
