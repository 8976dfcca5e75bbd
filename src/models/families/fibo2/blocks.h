#pragma once
#include "models/blocks/cross_attention.h"
#include "models/blocks/gated_mlp.h"
#include "models/blocks/sandwich_block.h"
#include "models/families/fibo2/config.h"

namespace burnish::models::fibo2 {

// Shape letters: B batch, L tokens, G gist tokens, T text tokens, E caption width, D width.

/// The sizes of every block that runs over pictures.
SandwichBlock::Sizes block_sizes(const BlockSizes& sizes);

/// A block that reads a text between attention and MLP: {inputs of the SandwichBlock, text [B,T,E], and where it is masked the bias
/// [B,1,1,T] of attention to it} -> what the SandwichBlock gives.
class ReadingBlock : public SandwichBlock {
 public:
  ReadingBlock(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  CrossAttention cross_attention_;
  nn::RMSNorm norm1_, norm2_;
  at::Tensor gate_;  ///< [1]
};

/// A layer of what makes the gist of a text: gist tokens attend to the text, then to each other. {gist [B,G,D], text [B,T,E], and where
/// they are masked the biases [B,1,1,T] and [B,1,1,G] of attention to them} -> {gist}.
class GistLayer : public nn::Block {
 public:
  GistLayer(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  CrossAttention to_text_, to_itself_;
  GatedMlp feed_forward_;
  nn::RMSNorm text_norm_, own_norm_, mlp_norm_;
};

}  // namespace burnish::models::fibo2
