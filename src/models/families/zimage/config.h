#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::zimage {

/// Every architecture number of the transformer. Defaults are Z-Image's, base and Turbo.
struct Config {
  int64_t latent_channels = 16;  ///< numbers of a latent; a token holds 2 × 2 latents
  int64_t width = 3840;
  int64_t num_layers = 30;
  int64_t num_refiner_layers = 2;  ///< layers of each of the two refiners
  int64_t head_dim = 128;
  int64_t hidden = 10240;        ///< width between the layers of the MLP
  int64_t caption_width = 2560;  ///< width of the text encoder's states
  int64_t time_hidden = 1024;    ///< width inside the timestep embedder
  double norm_eps = 1e-5;
  double rope_theta = 256;
  double time_scale = 1000;
  std::vector<int64_t> axes_dims = {32, 48, 48};  ///< numbers of a head for each position (caption, row, column); they sum to head_dim

  int64_t num_heads() const { return width / head_dim; }
  /// Returns the width of the vector that is made of the time, from which all modulation is made.
  int64_t condition_width() const { return std::min<int64_t>(width, 256); }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE axes). Throws a data Error when the two disagree, and for what is no Z-Image of text and picture alone.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::zimage
