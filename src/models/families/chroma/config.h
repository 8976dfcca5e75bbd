#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::chroma {

/// Every architecture number of the transformer. Defaults are Chroma1's.
struct Config {
  int64_t in_channels = 64;  ///< 4 × latent channels
  int64_t num_double_blocks = 19, num_single_blocks = 38;
  int64_t head_dim = 128, num_heads = 24;
  int64_t caption_width = 4096;                   ///< width of the T5 embedding
  std::vector<int64_t> axes_dims = {16, 56, 56};  ///< per axis of places (unused, row, column); sums to head_dim
  int64_t mlp_hidden = 12288;
  int64_t time_channels = 64, time_hidden = 5120;  ///< numbers that the layers which make all modulation read, and their width
  int64_t num_time_layers = 5;

  int64_t width() const { return head_dim * num_heads; }
  /// Counts modulating vectors: 3 of each single block, 6 for the picture and 6 for the caption of each double block, 2 of the last norm.
  int64_t num_modulations() const { return 3 * num_single_blocks + 12 * num_double_blocks + 2; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell. Throws a data Error where the two disagree, or neither is there.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::chroma
