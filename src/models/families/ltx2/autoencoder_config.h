#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::ltx2 {

/// The places that convolutions see beyond the edges of a frame.
enum class Edges { zeros, mirrored };

/// A step between two levels: the frames and the pixels along a side that become one, or are made of one.
struct Step {
  int64_t in_time = 1, in_space = 1;
  int64_t product() const { return in_time * in_space * in_space; }
  bool operator==(const Step&) const = default;
};

/// A level of residual blocks, and the step behind it in the encoder, before it in the decoder.
struct Level {
  int64_t channels = 0;     ///< channels of its blocks
  int64_t num_resnets = 0;  ///< residual blocks
  Step step = {};
  bool adds_input = true;  ///< whether what the step sees is added, its places rearranged, to what it makes (of the decoder)
};

/// Half of the autoencoder: levels in the order in which they run, beside a middle without a step, which is last in the encoder and first
/// in the decoder.
struct HalfConfig {
  bool is_there = true;  ///< whether the files hold it
  int64_t middle_channels = 1024, num_middle = 2;
  std::vector<Level> levels;
  Edges edges = Edges::zeros;
  bool is_causal = false;  ///< whether frames see those before them alone
};

/// Numbers of the autoencoder of frames. Defaults are LTX-2.3's, which are those of LTX-2.5 with its decoder of convolutions.
struct AutoencoderConfig {
  int64_t latent_channels = 128;
  int64_t patch = 4;  ///< pixels along a side that convolutions see as one place
  HalfConfig encoder = {.levels = {{128, 4, {1, 2}}, {256, 6, {2, 1}}, {512, 4, {2, 2}}, {1024, 2, {2, 2}}}, .is_causal = true};
  HalfConfig decoder = {.levels = {{512, 2, {2, 2}, false}, {512, 4, {2, 2}, false}, {256, 6, {2, 1}, false}, {128, 4, {1, 2}, false}}};
  int64_t tile_size = 0;  ///< larger frames are encoded and decoded in tiles of so many pixels a side (vae/tiles.h); 0: whole

  /// Returns the pixels per latent along a side, and the frames per latent behind the first, which stands for one frame.
  int64_t downsampling() const;
  int64_t frames_per_latent() const;
};

/// Returns LTX-2.0's numbers.
AutoencoderConfig autoencoder_config_20();

/// Reads sizes from shapes (our names), and what these cannot tell from the settings of the files: diffusers' config.json or the section
/// "vae" of a single file's metadata. Where no settings say how the decoder runs, three steps of two along all sides are 2.0's decoder, and
/// others 2.3's. Throws a data Error for an autoencoder that computes something else.
AutoencoderConfig autoencoder_config(const nlohmann::json& settings, const io::Shapes& shapes);

}  // namespace burnish::models::ltx2
