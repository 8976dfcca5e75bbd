#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::longcat_video {

/// Every architecture number of the transformer. Defaults are those of the published model, 13.6B.
struct Config {
  int64_t channels = 16;  ///< numbers of a latent
  int64_t width = 4096, num_heads = 32, num_layers = 48;
  int64_t hidden = 11008;        ///< width between the layers of the MLPs
  int64_t caption_width = 4096;  ///< width of the text encoder's states
  int64_t time_channels = 256, time_width = 512;

  int64_t head_dim() const { return width / num_heads; }
  /// Returns the numbers of a head that turn with the frame, the row and the column.
  std::vector<int64_t> axes_dims() const;
};

/// Reads the numbers from tensor shapes and, where there is one, the component's config.json, which wins for what shapes cannot tell.
/// Throws a data Error where the two disagree, or neither is there.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::longcat_video
