#pragma once
#include "models/families/minimax_h3/config.h"
#include "nn/block.h"
#include "nn/by_tokens.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

// Shape letters: B batch, L tokens of all kinds, T of the text, A of the sound, V of the frames, D width, H heads, P width of a head, R
// rotated pairs of a head.
namespace burnish::models::minimax_h3 {

/// Runs self-attention over heads that are wider together than a token, with a norm of every head's query and key before they are turned.
/// Of a head the first 2 R numbers turn, number i with number i + R; the rest stays.
class Attention : public nn::Module {
 public:
  Attention(const Config& c, const at::TensorOptions& options);
  /// Projects x [B, L, D] -> {query, key, value [B, L, H, P]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Attends by what `project` gives, with `attention`; cos and sin [L, R] in fp32, or of several samples [B, L, R], undefined where
  /// tokens have no places -> [B, L, D].
  using Attend = std::function<at::Tensor(const at::Tensor& q_BHLP, const at::Tensor& k_BHLP, const at::Tensor& v_BHLP)>;
  at::Tensor attend(const nn::Tensors& projected, const at::Tensor& cos, const at::Tensor& sin, const Attend& attention) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Computes net.2(up · SiLU(gate)), where net.0.proj makes up and behind it gate (Shazeer 2020, arXiv 2002.05202).
class FeedForward : public nn::Module, public nn::GoesByTokens {
 public:
  FeedForward(const Config& c, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear in_, out_;
};

/// Runs attention without places and an MLP over the tokens of a text: {x [B,T,D], and where tokens are masked attention's bias
/// [B,1,1,T]} -> {x}.
class RefinerBlock : public nn::Block {
 public:
  RefinerBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::RMSNorm norm1_, norm2_;
  Attention attention_;
  FeedForward feed_forward_;
};

/// The numbers of a token that modulate it in a block: shift, scale and gate of attention, and of the MLP.
inline constexpr int64_t kModulations = 6;

/// Runs attention and an MLP over one sequence of a text, frames, and further runs of tokens between them (sound, pictures), in which each
/// run is modulated by its own numbers. {text [B,T,D], frames [B,V,D], modulation, cos, sin, then what stands between them, and attention's
/// bias where tokens are masked} -> {text, frames, and what stands between them}. The modulation [B,6·D·R] is that of all R runs in the
/// order of the sequence; cos, sin and bias are of all tokens in the order of places (nn/token_shares.h), the others of this place.
class MainBlock : public nn::Block, public nn::SharesTokens {
 public:
  MainBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::RMSNorm norm1_, norm2_;
  Attention attention_;
  FeedForward feed_forward_;
};

/// Turns heads [B, L, H, P] by their places, in fp32, cos and sin [L, R] or [B, L, R] -> [B, H, L, P].
at::Tensor turned(const at::Tensor& heads_BLHP, const at::Tensor& cos, const at::Tensor& sin);

/// Computes RMS(x) · weight · (1 + scale) + shift in fp32; scale and shift [B, D]. Rounded once, to what x has.
at::Tensor modulated(const at::Tensor& x_BLD, const at::Tensor& weight, const at::Tensor& scale_BD, const at::Tensor& shift_BD, double eps);

}  // namespace burnish::models::minimax_h3
