#pragma once
#include "models/flux/config.h"
#include "models/mmdit.h"

namespace burnish::models::flux {

/// The block of two streams, with FLUX.1's names. Behind its other inputs it takes mmdit::Further.
class DoubleBlock : public mmdit::DoubleBlock {
 public:
  DoubleBlock(const Config& c, const at::TensorOptions& options);
};

/// Attention and MLP side by side over text and image tokens in one stream.
/// {tokens [B,L,D], modulation [B,3D], cos, sin [L,P], and mmdit::Further} -> {tokens}. Further keys are attended to by all tokens, with
/// queries in their places.
class SingleBlock : public nn::Block {
 public:
  SingleBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  mmdit::StreamQkv qkv_;
  nn::Linear proj_mlp_, proj_out_;
};

}  // namespace burnish::models::flux
