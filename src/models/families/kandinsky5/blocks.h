#pragma once
#include <functional>

#include "models/families/kandinsky5/config.h"
#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/layers.h"
#include "nn/recomputed_values.h"
#include "nn/token_shares.h"

namespace burnish::models::kandinsky5 {

// Shape letters: B batch, L picture tokens, T text tokens, D width, H heads, P rotated pairs of a head, E width of a head.

/// Linear layers of query, key, value and result, with an RMS norm of each head's query and key. The tokens that attend are modulated by
/// a norm before: {x [B, L, D], scale, shift [B, D]}.
class Attention : public nn::Module {
 public:
  Attention(const Config& config, const at::TensorOptions& options);

  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLE, const at::Tensor& k_BHLE, const at::Tensor& v_BHLE)>;
  /// Attends among tokens in their places: cos, sin [L, P].
  at::Tensor to_itself(const nn::Tensors& in_norm, const at::Tensor& cos_LP, const at::Tensor& sin_LP, const Attend& attend) const;
  /// Attends to a text's tokens, none of which has a place; bias [B, 1, 1, T] of the text, or undefined.
  at::Tensor to_text(const nn::Tensors& in_norm, const at::Tensor& text_BTD, const at::Tensor& bias) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Runs linear, GELU, linear, without biases.
class FeedForward : public nn::Module, public nn::GoesByTokens {
 public:
  FeedForward(const Config& config, const at::TensorOptions& options);
  /// Computes them of what the norm makes of {x, scale, shift}.
  at::Tensor forward(const nn::Tensors& in_norm) const;

 private:
  nn::Linear in_, out_;
};

/// A block of a text: {text [B, T, D], modulation [B, 6 D] fp32, cos, sin [T, P], and where texts differ in length a bias [B, 1, 1, T]} ->
/// {text}. Texts are whole wherever tokens are shared out.
class TextBlock : public nn::Block {
 public:
  TextBlock(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Attention attention_;
  FeedForward feed_forward_;
};

/// A block of a picture: {picture [B, L, D], modulation [B, 9 D] fp32, text [B, T, D], cos, sin [L, P] of all tokens in the order of
/// places, and where texts differ in length a bias [B, 1, 1, T]} -> {picture}.
class PictureBlock : public nn::Block, public nn::SharesTokens {
 public:
  PictureBlock(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  Attention to_itself_, to_text_;
  FeedForward feed_forward_;
};

/// Is what every norm of a token adds to its variance.
inline constexpr double kTokenEps = 1e-5;

}  // namespace burnish::models::kandinsky5
