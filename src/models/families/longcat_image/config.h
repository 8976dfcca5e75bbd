#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::longcat_image {

/// Every architecture number of the transformer. Defaults are those of the published models.
struct Config {
  int64_t in_channels = 64;  ///< 4 × latent channels
  int64_t num_double_blocks = 10, num_single_blocks = 20;
  int64_t head_dim = 128, num_heads = 24;
  int64_t caption_width = 3584;                   ///< width of the text encoder's states
  std::vector<int64_t> axes_dims = {16, 56, 56};  ///< per axis of places (text or picture, row, column); sums to head_dim

  int64_t width() const { return head_dim * num_heads; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell. Throws a data Error where the two disagree, or neither is there.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::longcat_image
