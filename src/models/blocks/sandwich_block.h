#pragma once
#include <memory>

#include "models/blocks/gated_mlp.h"
#include "models/blocks/self_attention.h"
#include "nn/block.h"

namespace burnish::models {

/// Runs attention and MLP, each between two RMS norms: x + tanh(gate) · norm2(f(norm1(x) (1 + scale))); scales and gates are made of a
/// conditioning by a layer of the block's own, or given, or left out.
/// {tokens [B,L,D], cos, sin, where modulated the conditioning [B,C] or the scale and gate of attention and those of the MLP [B,4D], and
/// where tokens are masked attention's bias} -> {tokens}.
class SandwichBlock : public nn::Block {
 public:
  /// The names of its parts.
  struct Names {
    const char *attention = "attention", *mlp = "feed_forward";
    const char *attention_norm1 = "attention_norm1", *attention_norm2 = "attention_norm2";
    const char *ffn_norm1 = "ffn_norm1", *ffn_norm2 = "ffn_norm2";
    GatedMlp::Names in_mlp = {.gate = "w1", .up = "w3", .down = "w2"};
  };
  struct Sizes {
    SelfAttention::Sizes attention;
    int64_t hidden;  ///< width between the layers of the MLP
    double norm_eps;
    int64_t condition_width = 0;       ///< width of what modulates; 0: no layer of its own makes scales and gates
    const char* modulation = nullptr;  ///< name of the layer that makes scales and gates of it
    bool is_given_modulation = false;  ///< whether scales and gates are given
    Names names = {};
  };
  SandwichBlock(const Sizes& sizes, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  SelfAttention attention_;
  GatedMlp feed_forward_;
  nn::RMSNorm attention_norm1_, attention_norm2_, ffn_norm1_, ffn_norm2_;
  bool is_modulated_;
  std::unique_ptr<nn::Linear> modulation_;
};

}  // namespace burnish::models
