#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::ideogram4 {

/// Every architecture number of a transformer. Defaults are Ideogram 4's, of which there are two, with a text and without.
struct Config {
  int64_t in_channels = 128;  ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t width = 4608;
  int64_t num_layers = 34;
  int64_t head_dim = 256;
  int64_t hidden = 12288;         ///< width between the layers of the MLPs
  int64_t condition_width = 512;  ///< width of what is made of the time, from which all modulation is made
  int64_t caption_width = 53248;  ///< width of the text encoder's states, those of 13 layers together
  double norm_eps = 1e-5;
  double rope_theta = 5e6;
  /// The numbers of a head's rotated pairs that turn with the place in time, with the row and with the column: these two take turns with
  /// the first until they are used up, and the rest turns with the first.
  std::vector<int64_t> sections = {24, 20, 20};

  int64_t num_heads() const { return width / head_dim; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE, eps). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::ideogram4
