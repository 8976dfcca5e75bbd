#pragma once
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models {

/// Runs attention in which no token has a place, with an RMS norm of every head's query and key. Shape letters: B batch, L tokens, D width,
/// T tokens that they attend to, E the width of these, H heads, P width of a head.
class CrossAttention : public nn::Module {
 public:
  /// The names of its layers.
  struct Names {
    const char *q = "to_q", *k = "to_k", *v = "to_v", *out = "to_out.0", *norm_q = "norm_q", *norm_k = "norm_k";
  };
  struct Sizes {
    int64_t width, read_width;  ///< D and E
    int64_t num_heads;
    double norm_eps;
    bool has_biases = false;
    Names names = {};
  };
  CrossAttention(const Sizes& sizes, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> query [B, L, H, P].
  at::Tensor query(const at::Tensor& x_BLD) const;
  /// Projects what is attended to, [B, T, E] -> {key, value [B, T, H, P]}.
  nn::Tensors keys_and_values(const at::Tensor& read_BTE) const;
  /// Projects x [B, L, D] that attends to itself -> {query, key, value [B, L, H, P]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by query, key and value; bias [B, 1, 1, T] on the keys, or undefined -> [B, L, D].
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& bias) const;

 private:
  at::Tensor as_heads(const at::Tensor& x) const;

  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

}  // namespace burnish::models
