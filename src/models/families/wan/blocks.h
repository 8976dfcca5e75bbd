#pragma once
#include <functional>
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/wan/config.h"
#include "nn/recomputed_values.h"

namespace burnish::models::wan {

// Shape letters: B batch, L tokens of the clip, G tokens of frames that are given, T text tokens, N tokens of a picture, D width, H heads,
// P rotated pairs of a head, R rows of modulation.

/// Query, key and value with the RMS norm of query and key over all heads at once.
class Attention : public nn::Module, public nn::SharesTokens {
 public:
  /// `image`: whether it reads the tokens of a picture too, with keys and values of their own.
  Attention(const Config& config, bool image, const at::TensorOptions& options);

  /// Attends among normed tokens x [B, L, D] in their places: cos, sin [L, P] of all tokens.
  at::Tensor to_itself(const nn::Tensors& in_norm, const nn::Compute& norm, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const {
    return attended(projected(in_norm, norm), cos_LP, sin_LP);
  }
  /// Computes the two steps of to_itself: the query, key and value of tokens [B, L, D], and attention among them.
  nn::Tensors projected(const nn::Tensors& in_norm, const nn::Compute& norm) const;
  at::Tensor attended(const nn::Tensors& projected, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const;
  /// Attends so among tokens of which those of each frame but the first also see those of a frame of a clip beside them: keys_BSD and
  /// values_BSD, what the clip's own tokens were projected to, in their places.
  struct Beside {
    at::Tensor keys_BSD, values_BSD, cos_SP, sin_SP;
  };
  at::Tensor attended_with(const Beside& beside, const nn::Tensors& projected, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const;
  /// Attends from x [B, L, D] to a text [B, T, D]; bias [B, 1, 1, T] may be undefined. To the picture's tokens [B, N, D] it attends apart,
  /// with the same queries, and adds the result.
  at::Tensor to_others(const at::Tensor& x_BLD, const at::Tensor& text_BTD, const at::Tensor& bias, const at::Tensor& image_BND) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_, out_;
  nn::RMSNorm norm_q_, norm_k_;
  struct ForImage {
    ForImage(int64_t width, const at::TensorOptions& options);
    nn::Linear k, v;
    nn::RMSNorm norm_k;
  };
  std::unique_ptr<ForImage> image_;
};

/// A block of Wan: attention of the clip's tokens to each other, to the text and to a picture, and an MLP (names of diffusers'
/// WanTransformerBlock).
///
/// Inputs of `body`: {tokens [B, L, D], modulation [B, R, 6 D] in fp32, text [B, T, D], bias [B, 1, 1, T], cos, sin [G + L, P]}, then the
/// picture's tokens [B, N, D] where the config says image_width, then what is said in each frame where it says `talk` (talk.h), then with
/// R = 2 the tokens of given frames [B, G, D], which come first in attention and are modulated by the second row. -> {tokens}, with R = 2
/// {tokens, given}.
class Block : public nn::Block {
 public:
  Block(const Config& config, const at::TensorOptions& options);
  ~Block() override;
  nn::Tensors body(const nn::Tensors& inputs) override;

 protected:
  /// Computes the body with attention among the tokens by `attend`, which is given what their norm reads.
  nn::Tensors body_with(const nn::Tensors& inputs, const std::function<at::Tensor(const nn::Tensors& in_norm)>& attend) const;
  /// The norm of tokens before they attend to each other.
  static const nn::Compute kNorm;
  const Attention& attention() const { return attn1_; }

 private:
  bool reads_image_;
  at::Tensor table_;  ///< [1, 6, D], fp32: shift, scale, gate of attention; shift, scale, gate of the MLP
  Attention attn1_, attn2_;
  nn::LayerNorm norm2_;
  mmdit::FeedForward ffn_;
  struct Hearing;
  std::unique_ptr<Hearing> hearing_;  ///< attention to what is said, of InfiniteTalk
};

/// The index of `cos` among Block's inputs; it has a row for each token of all places.
inline constexpr size_t kCosOfBlock = 4;

/// A block that runs twice, first on the tokens of a clip, then on those that are denoised, of which each frame but the first sees the
/// clip's tokens of its frame too (Wan-Animate-2; names of parameters are those of Block).
///
/// Inputs of `body` are those of Block with R = 1 for the tokens, then for the clip's. -> {tokens, the clip's}. Without a clip it is a
/// Block.
class DrivenBlock : public Block {
 public:
  using Block::Block;
  nn::Tensors body(const nn::Tensors& inputs) override;
};

/// Makes of the inputs of the first block (Block) what is to be added to the tokens behind each block, by its number and these tokens;
/// undefined where nothing is.
using Hints = std::function<std::function<at::Tensor(int64_t block, const at::Tensor& tokens_BLD)>(const nn::Tensors& inputs)>;

/// Is what norms of a token add to its variance.
inline constexpr double kTokenEps = 1e-6;

}  // namespace burnish::models::wan
