#pragma once
#include <memory>

#include "models/families/minimax_h3/autoencoder_config.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::minimax_h3 {

/// The autoencoder of frames (names of diffusers' AutoencoderKLMiniMaxH3): causal convolutions encode, a transformer decodes. Clips of 17
/// frames are encoded apart, each as five latents, of which the first stands for one frame and the others for four; the last three latents
/// of all are left out: 17 n + 5 frames have 5 n + 2 latents. A picture has the latent that it would have at the beginning of a clip.
///
/// Pixels are from -1 to 1, and are brought to ImageNet's mean and deviation here; latents have mean 0 and deviation 1.
class Autoencoder : public nn::Module {
 public:
  Autoencoder(const AutoencoderConfig& config, const at::TensorOptions& options);
  ~Autoencoder() override;
  /// Encodes a picture [B, 3, H, W] or a clip [B, 3, F, H, W] in [-1, 1], or as bytes, H and W multiples of downsampling() -> the moments
  /// of its latents [B, C, h, w] or [B, C, f, h, w]. A clip is filled up to a multiple of 17 frames by its last one.
  vae::Encoder::Moments encode(const at::Tensor& frames) const;
  /// Decodes latents as the denoiser sees them: of a picture, [B, C, h, w] -> [B, 3, H, W], and of a clip of two latents or more, [B, C, f,
  /// h, w] -> [B, 3, F, H, W]. A picture's latent is decoded as the first of two equal ones.
  at::Tensor decode(const at::Tensor& latents) const;

 private:
  struct Encoder;
  at::Tensor encoded(const at::Tensor& clip_BCFHW) const;
  at::Tensor decoded(const at::Tensor& latents_BCFHW) const;
  at::Tensor decoded_clip(const at::Tensor& latents_BCFHW) const;

  AutoencoderConfig config_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<nn::Module> decoder_;
  nn::Conv quant_conv_, post_quant_conv_;
};

}  // namespace burnish::models::minimax_h3
