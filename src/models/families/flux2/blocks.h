#pragma once
#include "models/blocks/mmdit.h"
#include "models/families/flux2/config.h"

namespace burnish::models::flux2 {

/// The block of two streams, with gated MLPs and without biases.
class DoubleBlock : public mmdit::DoubleBlock {
 public:
  DoubleBlock(const Config& c, const at::TensorOptions& options);
};

/// Runs attention and gated MLP side by side over text and image tokens in one stream, one linear layer before both and one behind. {tokens
/// [B,L,D], modulation [B,3D], cos, sin [L,P]} -> {tokens}. Tokens are shared out as in mmdit::DoubleBlock.
class SingleBlock : public nn::Block, public nn::SharesTokens {
 public:
  SingleBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  mmdit::Widths widths_;
  nn::Linear in_, out_;
  nn::RMSNorm norm_q_, norm_k_;
};

}  // namespace burnish::models::flux2
