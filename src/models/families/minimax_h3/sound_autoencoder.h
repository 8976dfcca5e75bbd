#pragma once
#include <memory>

#include "models/families/minimax_h3/sound_config.h"
#include "models/families/minimax_h3/sound_decoder.h"
#include "models/model/components.h"

namespace burnish::models::minimax_h3 {

/// The autoencoder of sound (names of diffusers' AutoencoderKLMiniMaxH3Audio, which are the original ones). It hears one channel: the sides
/// of a sound are samples of a batch. Silence has latents that are not zero.
class SoundAutoencoder : public nn::Module {
 public:
  SoundAutoencoder(const SoundConfig& config, const at::TensorOptions& options);
  ~SoundAutoencoder() override;
  /// Encodes samples [B, N] in [-1, 1] -> the mean of their latents [B, C, ceil(N / samples_per_latent)], with mean 0 and deviation 1.
  at::Tensor encode(const at::Tensor& samples_BN) const;
  /// Decodes such latents -> samples [B, N] in [-1, 1].
  at::Tensor decode(const at::Tensor& latents_BCL) const;

 private:
  struct Encoder;
  struct Narrowing;
  SoundConfig config_;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Narrowing> narrowing_;
  TimeConv mean_, in_;
  SoundDecoder decoder_;
};

/// Finds it in a file of its own or below "audio_vae." of another, without what no code runs.
Source find_sound(const ModelFiles& files);

}  // namespace burnish::models::minimax_h3
