#pragma once
#include "models/blocks/gated_mlp.h"
#include "models/blocks/self_attention.h"
#include "models/families/ernie_image/config.h"
#include "nn/block.h"
#include "nn/layers.h"

namespace burnish::models::ernie_image {

// Shape letters: B batch, L tokens, D width.

/// Runs attention and MLP, each behind an RMS norm, a scale and a shift, and before a gate; all blocks share these six.
/// {tokens [B,L,D], cos, sin, shift, scale and gate of attention and of the MLP [B,6D], and where tokens are masked attention's bias} ->
/// {tokens}.
class Block : public nn::Block {
 public:
  Block(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  nn::RMSNorm attention_norm_, mlp_norm_;
  SelfAttention attention_;
  GatedMlp mlp_;
};

}  // namespace burnish::models::ernie_image
