#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "models/blocks/gated_mlp.h"
#include "models/blocks/self_attention.h"
#include "nn/block.h"

namespace burnish::models {

/// Runs attention and MLP, each between two RMS norms: x + tanh(gate) · norm2(f(norm1(x) (1 + scale))); scales and gates are made of a
/// conditioning by a layer of the block's own, or given, or left out.
/// {tokens [B,L,D], cos, sin, where modulated the conditioning [B,C] or the scale and gate of attention and those of the MLP [B,4D], and
/// where tokens are masked attention's bias} -> {tokens}. With a conditioning [B,2C] tokens are of two kinds, each with its half: {tokens,
/// cos, sin, conditioning, those of the second kind, bias} -> {tokens, second kind}; cos, sin and bias are of all of them, the second kind
/// first. Where tokens are shared out, they are this place's, and cos, sin and bias those of all, in the order of places
/// (nn/token_shares.h).
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

 protected:
  /// Tokens of a kind, and their scale and gate of attention, scale and gate of the MLP [B, D]; without modulation there are none.
  struct Run {
    at::Tensor x_BLD;
    nn::Tensors modulation = {};
  };
  using Runs = std::vector<Run>;
  /// Computes use(norm of all tokens, times 1 + scale where `scale` is one of their modulation), the norm computed again in backward.
  static nn::Tensors normed(const Runs& runs, const nn::RMSNorm& norm, const std::function<nn::Tensors(const at::Tensor&)>& use,
                            std::optional<size_t> scale = {});
  /// Adds the norm of y, which is of all tokens, to each kind by its gate; undefined gates are 1.
  static void add(Runs& runs, const at::Tensor& y_BLD, const nn::RMSNorm& norm, const std::function<at::Tensor(const Run&)>& gate);
  /// Computes the body, with what a block of another kind does between attention and MLP.
  nn::Tensors body_with(const nn::Tensors& inputs, const std::function<void(Runs& runs)>& between) const;

 private:
  Runs runs_of(const nn::Tensors& inputs) const;

  int64_t condition_width_;
  SelfAttention attention_;
  GatedMlp feed_forward_;
  nn::RMSNorm attention_norm1_, attention_norm2_, ffn_norm1_, ffn_norm2_;
  bool is_modulated_;
  std::unique_ptr<nn::Linear> modulation_;
};

}  // namespace burnish::models
