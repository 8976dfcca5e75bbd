#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::flux3 {

/// Every architecture number of the transformer. Defaults are those of FLUX.3 klein and of its base.
struct Config {
  int64_t in_channels = 128;     ///< numbers of a token, which is one of the latents that the autoencoder makes
  int64_t num_early_blocks = 5;  ///< blocks of each stream by itself
  int64_t num_joint_blocks = 28;
  int64_t num_heads = 24;
  int64_t head_dim = 128;
  int64_t hidden = 9216;                              ///< width between the layers of the MLPs
  int64_t caption_width = 20480;                      ///< width of the text encoder's states, those of several layers side by side
  bool is_flow_map = false;                           ///< whether it is told where a step leads: a distilled model
  std::vector<int64_t> axes_dims = {32, 32, 32, 32};  ///< sizes per position (time, row, column, place); they sum to head_dim
  double rope_theta = 10000;

  int64_t width() const { return num_heads * head_dim; }
  /// Counts the blocks of all streams by themselves, and all blocks.
  int64_t early_blocks() const { return 3 * num_early_blocks; }
  int64_t all_blocks() const { return early_blocks() + num_joint_blocks; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell (RoPE). Throws a data Error when the two disagree, and for relatives with streams of other things.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::flux3
