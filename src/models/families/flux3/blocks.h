#pragma once
#include "models/blocks/mmdit.h"
#include "models/families/flux3/config.h"

namespace burnish::models::flux3 {

/// Runs attention and a gated MLP side by side, both of the normed tokens, whose sum is gated once. Inputs and outputs of `body`:
/// {modulation [B, 3 N D], cos, sin [L, P], N runs of tokens [B, ·, D] of L together, and a bias of attention or none} -> {the runs}. Each
/// run has shift, scale and gate of its own, one run's behind the other's; all runs attend to all. Tokens are shared out as in
/// mmdit::DoubleBlock.
class Block : public nn::Block, public nn::SharesTokens {
 public:
  Block(const Config& config, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  int64_t width_;
  mmdit::StreamQkv qkv_;
  nn::Linear out_;
  mmdit::FeedForward mlp_;
};

}  // namespace burnish::models::flux3
