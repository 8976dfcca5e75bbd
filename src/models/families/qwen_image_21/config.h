#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::qwen_image_21 {

/// Every architecture number of the transformer. Defaults are those of Qwen-Image-2.1.
struct Config {
  int64_t in_channels = 64;  ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t num_layers = 32;
  int64_t num_heads = 32;
  int64_t head_dim = 128;
  int64_t hidden = 12288;        ///< width between the layers of the MLPs
  int64_t caption_width = 4096;  ///< width of the text encoder's states
  double norm_eps = 1e-6;
  std::vector<int64_t> axes_dims = {16, 56, 56};  ///< numbers of a head for each position (picture, row, column); they sum to head_dim

  int64_t width() const { return num_heads * head_dim; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE, eps). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::qwen_image_21
