#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"

namespace burnish::models::moss_image {

/// Every architecture number of the transformer. Defaults are those of MOSS-Image-Base and MOSS-Image-SFT.
struct Config {
  int64_t in_channels = 128;  ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t width = 3072;
  int64_t num_layers = 42;
  int64_t head_dim = 128;
  int64_t hidden = 8192;         ///< width between the layers of the MLPs
  int64_t caption_width = 4096;  ///< width of the text encoder's states
  int64_t num_text_layers = 2;   ///< layers of the text alone
  int64_t time_channels = 256;   ///< sinusoids of the time
  double rope_theta = 10000;

  int64_t num_heads() const { return width / head_dim; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::moss_image
