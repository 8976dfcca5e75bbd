#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::krea2 {

/// The sizes of a stack of blocks, whose heads side by side are as wide as its tokens.
struct Stack {
  int64_t width, num_heads, num_kv_heads;  ///< heads of keys and values serve num_heads / num_kv_heads queries each
  int64_t hidden;                          ///< width between the layers of the MLP
};

/// The numbers of the blocks that run over pictures and texts. Defaults are Krea 2's, Raw and Turbo.
struct MainSizes {
  int64_t num_layers = 28;
  int64_t num_heads = 48;
  int64_t num_kv_heads = 12;
  int64_t head_dim = 128;
  int64_t hidden = 16384;

  int64_t width() const { return num_heads * head_dim; }
  Stack main() const { return {width(), num_heads, num_kv_heads, hidden}; }
};

/// The numbers of what makes one state of several for each token of a text.
struct FusionSizes {
  int64_t caption_width = 2560;     ///< width of the text encoder's states
  int64_t num_caption_layers = 12;  ///< layers of the text encoder whose states are read
  int64_t num_caption_heads = 20;
  int64_t num_caption_kv_heads = 20;
  int64_t caption_hidden = 6912;
  int64_t num_layerwise_blocks = 2;  ///< blocks over the states of one token
  int64_t num_refiner_blocks = 2;    ///< blocks over the tokens of a text

  Stack fusion() const { return {caption_width, num_caption_heads, num_caption_kv_heads, caption_hidden}; }
};

/// Every architecture number of the transformer.
struct Config : MainSizes, FusionSizes {
  int64_t in_channels = 64;  ///< numbers of a token, which holds 2 × 2 latents
  double norm_eps = 1e-5;
  double rope_theta = 1000;
  std::vector<int64_t> axes_dims = {32, 48, 48};  ///< numbers of a head for each position (picture, row, column); they sum to head_dim
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE). Throws a data Error when the two disagree.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::krea2
