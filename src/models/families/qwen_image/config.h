#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::qwen_image {

/// Every architecture number of the transformer. Defaults are Qwen-Image's, and those of its version 2512, of Edit and of Edit-2509.
struct Config {
  int64_t in_channels = 64;  ///< numbers of a token, which holds 2 × 2 latents
  int64_t num_layers = 60;
  int64_t num_heads = 24;
  int64_t head_dim = 128;
  int64_t hidden = 12288;                         ///< width between the layers of the MLPs
  int64_t caption_width = 3584;                   ///< width of the text encoder's states
  std::vector<int64_t> axes_dims = {16, 56, 56};  ///< numbers of a head for each position (picture, row, column); they sum to head_dim
  bool zero_cond_t = false;                       ///< whether reference pictures are modulated by the time 0: Qwen-Image-Edit-2511
  bool has_layers = false;                        ///< whether it makes the layers of a picture: Qwen-Image-Layered

  int64_t width() const { return num_heads * head_dim; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE axes, zero_cond_t). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::qwen_image
