#pragma once
#include <memory>

#include "models/families/ltx2/autoencoder_config.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::ltx2 {

/// The autoencoder of frames (names of diffusers' AutoencoderKLLTX2Video): convolutions over frames. A clip has 1 + k · frames_per_latent()
/// frames and 1 + k latents; a picture is a clip of one frame, and has the latent that it would have at the beginning of any clip. Frames
/// are decoded with a look at those behind them.
///
/// A clip goes through in chunks of a few latents: what is there at once does not grow with its length, but for the clip itself.
class Autoencoder : public nn::Module {
 public:
  Autoencoder(const AutoencoderConfig& config, const at::TensorOptions& options);
  ~Autoencoder() override;
  /// Encodes a picture [B, 3, H, W] or a clip [B, 3, F, H, W] in [-1, 1], or as bytes, H and W multiples of downsampling() -> the moments
  /// of its latents [B, C, h, w] or [B, C, f, h, w], brought to mean 0 and deviation 1. Throws a data Error for other sizes, and where the
  /// files hold the decoder alone.
  vae::Encoder::Moments encode(const at::Tensor& frames) const;
  /// Decodes latents as the denoiser sees them: of a picture, [B, C, h, w] -> [B, 3, H, W], and of a clip, [B, C, f, h, w] -> [B, 3, F, H,
  /// W] in [-1, 1]. Throws a data Error where the files hold the encoder alone.
  at::Tensor decode(const at::Tensor& latents) const;

 private:
  struct Encoder;
  struct Decoder;
  AutoencoderConfig config_;
  at::Tensor mean_, deviation_;  ///< of each channel of latents [C]
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace burnish::models::ltx2
