#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::ernie_image {

/// Every architecture number of the transformer. Defaults are those of ERNIE-Image and ERNIE-Image-Turbo.
struct Config {
  int64_t in_channels = 128;  ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t width = 4096;
  int64_t num_layers = 36;
  int64_t head_dim = 128;
  int64_t hidden = 12288;        ///< width between the layers of the MLPs
  int64_t caption_width = 3072;  ///< width of the text encoder's states
  double norm_eps = 1e-6;
  double rope_theta = 256;
  std::vector<int64_t> axes_dims = {32, 48, 48};  ///< numbers of a head for each position (text, row, column); they sum to head_dim

  int64_t num_heads() const { return width / head_dim; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE, eps). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::ernie_image
