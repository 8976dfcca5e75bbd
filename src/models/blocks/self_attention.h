#pragma once
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

// Attention with an RMS norm of every head's query and key, and rotary positions. Shape letters: B batch, L tokens, D width, H heads, P
// width of a head.
namespace burnish::models {

/// How many heads there are, how they are normed and turned, and what the layers around them are called.
struct HeadSizes {
  enum class Turn {
    pairs,  ///< numbers 2i and 2i + 1 of a head turn together; cos and sin have a number for each pair
    halves  ///< numbers i and i + P/2, each with a number of its own in cos and sin, computed in fp32
  };
  struct Names {
    const char *q = "to_q", *k = "to_k", *v = "to_v", *out = "to_out.0", *norm_q = "norm_q", *norm_k = "norm_k";
  };
  int64_t width, num_heads;
  double norm_eps;
  Turn turn = Turn::pairs;
  Names names = {};
  int64_t num_kv_heads = 0;  ///< heads of keys and values, each for num_heads / num_kv_heads queries; 0: as many as of queries

  int64_t kv_heads() const { return num_kv_heads > 0 ? num_kv_heads : num_heads; }
  int64_t kv_width() const { return width / num_heads * kv_heads(); }
};

/// Norms, turns and attends by heads that layers of whoever derives from it make.
class HeadAttention : public nn::Module, public nn::SharesTokens {
 public:
  using SharesTokens::Attend;
  HeadAttention(const HeadSizes& sizes, const at::TensorOptions& options);

 protected:
  /// Owns the norms, behind the layers that whoever derives from it owns.
  void own_norms();
  /// Makes heads of what layers of queries, keys and values gave: [B, L, ...] -> [B, L, H, P].
  nn::Tensors in_heads(nn::Tensors projected) const;
  /// Attends by {query, key, value [B, L, H, P]} with `attention`, which is given all tokens [B, H, L, P] in the order of places, and as
  /// many heads of keys as of queries -> [B, L, D]. cos and sin [L, P or P/2], of several samples [B, L, P or P/2], are of all tokens.
  at::Tensor attended(const nn::Tensors& heads, const at::Tensor& cos, const at::Tensor& sin, const Attend& attention) const;

 private:
  HeadSizes sizes_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Runs self-attention.
class SelfAttention : public HeadAttention {
 public:
  using Turn = HeadSizes::Turn;
  using Sizes = HeadSizes;
  SelfAttention(const Sizes& sizes, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, P]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives; cos and sin [L, P or P/2], of several samples [B, L, P or P/2]; bias [B, 1, 1, L] on the keys, or
  /// undefined -> [B, L, D]. Where tokens are shared out, cos, sin and bias are of all of them, in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& bias) const;
  /// Computes another attention, which is given query, key and value of all tokens [B, H, L, P], in the order of places.
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const Attend& attention) const;

 private:
  nn::Linear q_, k_, v_, out_;
};

}  // namespace burnish::models
