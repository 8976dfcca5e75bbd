#pragma once
#include <memory>

#include "models/blocks/gated_mlp.h"
#include "models/blocks/self_attention.h"
#include "nn/block.h"

namespace burnish::models {

/// Runs attention and MLP, each between two RMS norms: x + tanh(gate) · norm2(f(norm1(x) (1 + scale))); scales and gates are made of a
/// conditioning by a layer of the block's own, or left out.
/// {tokens [B,L,D], cos, sin, conditioning [B,C] where modulated, and where tokens are masked attention's bias} -> {tokens}.
class SandwichBlock : public nn::Block {
 public:
  struct Sizes {
    SelfAttention::Sizes attention;
    int64_t hidden;  ///< width between the layers of the MLP
    double norm_eps;
    int64_t condition_width = 0;       ///< width of what modulates; 0: nothing does
    const char* modulation = nullptr;  ///< name of the layer that makes scales and gates of it
  };
  SandwichBlock(const Sizes& sizes, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  SelfAttention attention_;
  GatedMlp feed_forward_;
  nn::RMSNorm attention_norm1_, attention_norm2_, ffn_norm1_, ffn_norm2_;
  std::unique_ptr<nn::Linear> modulation_;
};

}  // namespace burnish::models
