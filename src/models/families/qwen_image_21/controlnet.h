#pragma once
#include "models/families/qwen_image_21/blocks.h"

// The ControlNet of Qwen-Image-2.1 (alibaba-pai's Fun-Controlnet-Union; DiffSynth-Studio: models/qwen_image_21_controlnet.py, whose tensor
// names these are). Shape letters: B batch, C tokens of text and reference pictures, I tokens of the target, N numbers of a control token,
// D width.
namespace burnish::models::qwen_image_21 {

/// The name of the ControlNet where it trains.
inline const std::string kControlNet = "controlnet";

/// Blocks that run beside every so many of the transformer's, on all of its tokens and on what controls, each of which adds a residual
/// behind the transformer's block.
class ControlNet : public nn::Module, public nn::SharesTokens {
 public:
  struct Config {
    qwen_image_21::Config blocks = {.in_channels = 129, .num_layers = 16};  ///< in_channels: numbers of a control token
    int64_t every = 2;                                                      ///< blocks of the transformer for one of these
  };
  /// Reads the numbers from tensor shapes. `transformer` says for how many blocks they are, and what no shape tells.
  static Config detect(const io::Shapes& shapes, const qwen_image_21::Config& transformer);
  ControlNet(const Config& config, const at::TensorOptions& options);
  ~ControlNet() override;

  /// Returns what the first block is given: `inputs` of the transformer's first block (Block), with what controls, [B, I, N], added to the
  /// target's tokens.
  nn::Tensors begin(const nn::Tensors& inputs, const at::Tensor& control_BIN) const;
  /// Goes on behind a block of the transformer: runs the block beside it, where there is one, on `controlled`, which `begin` made, and adds
  /// its residuals to the first two of `inputs`, {condition [B, C, D], target [B, I, D]}.
  void follow(int64_t block, nn::Tensors& controlled, nn::Tensors& inputs) const;

 private:
  class ControlBlock;

  int64_t every_;
  nn::Linear in_, before_;
  std::vector<std::unique_ptr<ControlBlock>> blocks_;
};

}  // namespace burnish::models::qwen_image_21
