#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::ltx2 {

/// Numbers of the bands of pitch whose strength, in short windows that follow each other, stands for a sound.
struct BandConfig {
  int64_t rate = 16000;    ///< samples a second
  int64_t step = 160;      ///< samples from one window to the next
  int64_t window = 1024;   ///< samples of a window
  int64_t num_bands = 64;  ///< bands of a window, from 0 to half of the rate
};

/// Numbers of the autoencoder of sound. Defaults are those of every LTX-2.
struct SoundConfig {
  BandConfig bands = {};
  int64_t num_sides = 2;        ///< sides of a sound, of which each has bands
  int64_t latent_channels = 8;  ///< numbers of a latent at each of its bands
  int64_t first_channels = 128;
  std::vector<int64_t> channels = {128, 256, 512};  ///< of the levels; each but the last is followed by a step of two windows and two bands
  int64_t num_resnets = 2;                          ///< residual blocks of a level of the encoder; one more of the decoder
  bool has_encoder = true, has_decoder = true;      ///< whether the files hold these halves

  /// Returns the windows, and the bands, that are one in a latent.
  int64_t step_of_levels() const { return int64_t{1} << (channels.size() - 1); }
  /// Returns the numbers of a latent in all.
  int64_t width() const { return latent_channels * (bands.num_bands / step_of_levels()); }
};

/// Reads sizes from shapes (our names), and checks that the settings of the files, diffusers' config.json or the section "audio_vae" of a
/// single file's metadata, say nothing that is computed otherwise than here. Throws a data Error for another autoencoder.
SoundConfig sound_config(const nlohmann::json& settings, const io::Shapes& shapes);

}  // namespace burnish::models::ltx2
