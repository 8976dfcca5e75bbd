#pragma once
#include <memory>

#include "models/families/stable_diffusion/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::stable_diffusion {

/// Runs two convolutions, each behind a group norm and SiLU, with the time embedding between them and a shortcut around. {x [B,in,H,W],
/// silu(time) [B,T]} -> {[B,out,H,W]}; with {x, skip, silu(time)} the skip's channels follow x's, and the joined tensor lives inside the
/// block only.
class ResnetBlock : public nn::Block {
 public:
  ResnetBlock(const Config& c, int64_t in, int64_t out, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::GroupNorm norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  nn::Linear time_emb_proj_;
  std::unique_ptr<nn::Conv2d> conv_shortcut_;
};

/// Attends with `width` queries to keys and values of width `context`; names are those of diffusers' Attention.
class Attention : public nn::Module {
 public:
  Attention(int64_t width, int64_t context, int64_t num_heads, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BLD, const at::Tensor& context_BTE) const;

 private:
  int64_t num_heads_;
  nn::Linear to_q_, to_k_, to_v_, to_out_;
};

/// Runs self-attention, cross-attention to the text and a gated MLP (GEGLU), each behind a layer norm. {tokens [B,L,D], text [B,T,E]} ->
/// {tokens}.
class TransformerBlock : public nn::Block {
 public:
  TransformerBlock(const Config& c, int64_t width, int64_t num_heads, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::LayerNorm norm1_, norm2_, norm3_;
  Attention attn1_, attn2_;
  nn::Linear ff_in_, ff_out_;
};

/// Runs transformer blocks over the pixels of a feature map (diffusers: Transformer2DModel).
class SpatialTransformer : public nn::Module {
 public:
  SpatialTransformer(const Config& c, int64_t channels, int64_t num_heads, int64_t depth, const at::TensorOptions& options);
  /// Maps x [B,C,H,W], text [B,T,E] -> [B,C,H,W].
  at::Tensor forward(const at::Tensor& x_BCHW, const at::Tensor& text_BTE);
  void list_blocks(std::vector<nn::Block*>& all);

 private:
  /// A projection of tokens, of which exactly one of the two is there.
  struct Projection {
    std::unique_ptr<nn::Linear> linear;
    std::unique_ptr<nn::Conv2d> conv;
  };
  Projection make_projection(const char* name, bool linear, int64_t channels, const at::TensorOptions& options);

  nn::GroupNorm norm_;
  Projection proj_in_, proj_out_;
  std::vector<std::unique_ptr<TransformerBlock>> blocks_;
};

}  // namespace burnish::models::stable_diffusion
