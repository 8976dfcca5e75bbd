#pragma once
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::sd3 {

/// Every architecture number of the transformer. Defaults are Stable Diffusion 3.5 Medium's.
struct Config {
  int64_t in_channels = 16;
  int64_t num_layers = 24;
  int64_t head_dim = 64, num_heads = 24;
  int64_t caption_width = 4096, pooled_width = 2048;
  int64_t most_places = 384;  ///< rows and columns of the table of places
  /// The blocks whose image tokens also attend to themselves alone, by their numbers.
  std::vector<int64_t> dual_layers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

  int64_t width() const { return head_dim * num_heads; }
  bool is_dual(int64_t block) const;
  /// Counts vectors that modulate a block: those of the picture, and those of the text, which ends in the last block.
  int64_t image_modulations(int64_t block) const { return is_dual(block) ? 9 : 6; }
  int64_t text_modulations(int64_t block) const { return block == num_layers - 1 ? 2 : 6; }
};

/// Returns the numbers of Stable Diffusion 3.5 Large, which Large Turbo has too.
Config large();

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json. Throws a data Error where the two
/// disagree, neither is there, or queries and keys have no norms.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::sd3
