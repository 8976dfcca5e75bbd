#pragma once
#include <memory>

#include "models/families/ltx2/sound_config.h"
#include "models/parts/find_components.h"

namespace burnish::models::ltx2 {

/// The autoencoder of sound (names of diffusers' AutoencoderKLLTX2Audio): convolutions over the strength of bands of pitch, which see what
/// was heard before alone. The numbers of a latent at all its bands stand behind each other, [C, b] as C · bands + b, and are brought to
/// mean 0 and deviation 1 each.
class SoundAutoencoder : public nn::Module {
 public:
  SoundAutoencoder(const SoundConfig& config, const at::TensorOptions& options);
  ~SoundAutoencoder() override;
  /// Encodes samples [B, S, N] of all sides, in [-1, 1] -> the mean of their latents [B, C, ceil((N / step + 1) / step_of_levels)]. Throws
  /// a data Error where the files hold the decoder alone.
  at::Tensor encode(const at::Tensor& samples_BSN) const;
  /// Decodes such latents [B, C, L] -> the strengths of bands [B, S, step_of_levels · (L - 1) + 1, bands], which a vocoder makes a sound
  /// of. Throws a data Error where the files hold the encoder alone.
  at::Tensor decode(const at::Tensor& latents_BCL) const;

 private:
  struct Encoder;
  struct Decoder;
  SoundConfig config_;
  at::Tensor mean_, deviation_;  ///< of each number of a latent [C]
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Decoder> decoder_;
};

/// Finds it in a file of its own or below "audio_vae." of another, by diffusers' names or the original ones, which differ in the
/// statistics, without what no code runs. Where its halves lie in two files, both are read as one.
Source find_sound(const ModelFiles& files);

}  // namespace burnish::models::ltx2
