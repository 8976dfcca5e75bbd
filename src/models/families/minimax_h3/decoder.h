#pragma once
#include <memory>
#include <vector>

#include "models/families/minimax_h3/autoencoder_config.h"
#include "nn/layers.h"

namespace burnish::models::minimax_h3 {

class DecoderBlock;

/// Decodes latents of frames: each is a token, and all see all. Behind them stand learned tokens and one of zeros, which are left out
/// again.
class Decoder : public nn::Module {
 public:
  Decoder(const AutoencoderConfig& config, const at::TensorOptions& options);
  ~Decoder() override;
  /// Maps latents [B, C, f, h, w] -> frames [B, 3, F, H, W], of each latent as many as it stands for.
  at::Tensor forward(const at::Tensor& latents_BCFHW) const;

 private:
  AutoencoderConfig config_;
  nn::Linear in_;
  at::Tensor registers_;  ///< [1, N, D]
  std::vector<std::unique_ptr<DecoderBlock>> blocks_;
  nn::LayerNorm norm_;
  nn::Linear out_;
};

}  // namespace burnish::models::minimax_h3
