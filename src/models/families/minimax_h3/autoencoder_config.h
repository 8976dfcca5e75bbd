#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::minimax_h3 {

/// Multiplies the steps of levels.
int64_t product_of(const std::vector<int64_t>& steps);

/// Numbers of the encoder, causal convolutions in levels.
struct EncoderConfig {
  std::vector<int64_t> block_out_channels = {128, 256, 256, 512, 512, 1024};
  int64_t layers_per_block = 2;
  std::vector<int64_t> steps_in_space = {2, 2, 2, 2, 1, 1}, steps_in_time = {1, 2, 2, 1, 1, 1};  ///< by which a level makes frames smaller
  int64_t num_groups = 32;                                                                       ///< groups of the norms' channels
  double eps = 1e-6;
};

/// Numbers of the decoder, a transformer over the latents of a clip.
struct DecoderConfig {
  int64_t num_layers = 36, num_heads = 32, head_dim = 64;
  int64_t num_registers = 4;  ///< learned tokens behind those of latents
  int64_t hidden = 8192;      ///< width between the layers of the MLPs
  double rope_theta = 100;
  double rotated_share = 0.75;  ///< of a head
  double eps = 1e-5;

  int64_t width() const { return num_heads * head_dim; }
};

/// A way to cut pictures into tiles: squares of `size` pixels that overlap by at least `overlap`; a size of 0: not at all.
struct Tiling {
  int64_t size = 256, overlap = 64;
};

/// Numbers of the autoencoder of frames. Defaults are MiniMax-H3's, whose original files hold neither mean nor deviation.
struct AutoencoderConfig {
  int64_t latent_channels = 24;
  EncoderConfig encoder = {};
  DecoderConfig decoder = {};
  int64_t clip_length = 17;  ///< frames that are encoded at once
  int64_t num_dropped = 3;   ///< latents at the end of what is encoded that are left out
  std::vector<double> latents_mean = {
      0.858090341091156,   -0.9606591463088989,  1.0661640167236328,   -0.5090325474739075, -0.2727581858634949,  -1.3675414323806763,
      -0.2553254961967468, -0.26907554268836975, -0.5376840829849243,  -0.0464097298681736, 0.6657370328903198,   0.19690127670764923,
      -0.5460608005523682, -0.4035342037677765,  -0.23683024942874908, 0.25928452610969543, -0.30133944749832153, 0.211341992020607,
      -1.1206848621368408, 0.3581933379173279,   -0.04225143790245056, 0.2604829967021942,  0.22864092886447906,  0.7056031823158264};
  std::vector<double> latents_std = {1.2223774194717407, 1.2767263650894165, 1.6831774711608887, 1.7549455165863037,  1.5636216402053833,
                                     2.194143533706665,  0.9653137922286987, 1.0569885969161987, 0.841948926448822,   0.7729952931404114,
                                     1.8955937623977661, 0.946841835975647,  0.7996809482574463, 0.44988900423049927, 0.7197399735450745,
                                     0.6936293244361877, 2.961095094680786,  2.7694199085235596, 3.0496184825897217,  2.1088054180145264,
                                     3.276226282119751,  3.1627357006073,    2.2816812992095947, 2.6127843856811523};
  Tiling tiling = {};

  /// Returns the pixels per latent along a side, and the frames per latent in time.
  int64_t downsampling() const;
  int64_t frames_per_latent() const;
  /// Returns the latents of a clip, as it is encoded.
  int64_t latents_per_clip() const { return (clip_length + frames_per_latent() - 1) / frames_per_latent(); }
  /// Returns the frames that a decoded clip has before its first.
  int64_t num_frames_before() const { return latents_per_clip() * frames_per_latent() - clip_length; }
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none), which wins for what shapes cannot tell.
AutoencoderConfig autoencoder_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the weights of `source` that some code runs, with what lies in them in another order in the order of our layers: query, key and
/// value of original files are those of one head after the other.
io::TensorSource autoencoder_tensors(const io::TensorSource& source);
/// Returns the rules between the names of such a source, original ones or diffusers', and ours, which are diffusers'.
io::KeyMap autoencoder_keys(const io::TensorSource& source);

}  // namespace burnish::models::minimax_h3
