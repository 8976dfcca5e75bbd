#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::kandinsky5 {

/// Every architecture number of the transformer. Defaults are those of the published Image Lite.
struct Config {
  int64_t channels = 16;       ///< numbers of a latent
  bool reads_picture = false;  ///< whether the latents of a picture stand beside the noisy ones, and behind them where there is one (I2I)
  int64_t width = 2560, hidden = 10240;
  int64_t time_width = 512;      ///< width of what all modulation is made of
  int64_t caption_width = 3584;  ///< width of the text encoder's states
  int64_t pooled_width = 768;    ///< width of CLIP's embedding of the whole text
  int64_t num_text_blocks = 2, num_blocks = 50;
  std::vector<int64_t> axes_dims = {32, 48, 48};  ///< of a head, per axis of places: frame, row, column

  int64_t head_dim() const;
  int64_t num_heads() const { return width / head_dim(); }
  /// Returns how many numbers it reads of a place: noisy ones, those of a picture, and whether there is one.
  int64_t num_read() const { return reads_picture ? 2 * channels + 1 : channels; }
};

/// Reads the numbers from tensor shapes and, where there is one, the component's config.json, which wins for what shapes cannot tell.
/// Throws a data Error where the two disagree, or neither is there, and for the transformers of the models that make clips.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::kandinsky5
