#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::flux2 {

/// Every architecture number of the transformer. Defaults are those of FLUX.2 klein 4B and of its base.
struct Config {
  int64_t in_channels = 128;  ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t num_double_blocks = 5;
  int64_t num_single_blocks = 20;
  int64_t num_heads = 24;
  int64_t head_dim = 128;
  int64_t hidden = 9216;                              ///< width between the layers of the MLPs
  int64_t caption_width = 7680;                       ///< width of the text encoder's states, those of several layers side by side
  std::vector<int64_t> axes_dims = {32, 32, 32, 32};  ///< sizes per position (picture, row, column, place in a text); they sum to head_dim
  double rope_theta = 2000;
  bool guidance_embeds = false;  ///< whether it is told a guidance: FLUX.2 dev

  int64_t width() const { return num_heads * head_dim; }
};

/// Returns the numbers of FLUX.2 klein 9B and of its base.
Config klein_9b();
/// Returns the numbers of FLUX.2 dev.
Config dev();

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::flux2
