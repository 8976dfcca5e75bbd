#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::anima {

/// Every architecture number of the transformer. Defaults are Anima's.
struct Config {
  int64_t in_channels = 16;  ///< of latents; behind them the transformer reads a channel of zeros
  int64_t out_channels = 16;
  int64_t num_layers = 28;
  int64_t num_heads = 16;
  int64_t head_dim = 128;
  int64_t hidden = 8192;
  int64_t modulation_rank = 256;  ///< width between the two layers that make the modulation of a norm
  int64_t caption_width = 1024;
  std::vector<double> rope_scale = {1, 4, 4};  ///< by how much places in time, row and column are stretched beyond what Cosmos saw

  int64_t width() const { return num_heads * head_dim; }
  /// Returns the numbers of a head that turn with time, row and column.
  std::vector<int64_t> axes_dims() const { return {head_dim - 2 * (head_dim / 6 * 2), head_dim / 6 * 2, head_dim / 6 * 2}; }
};

/// Every architecture number of the conditioner. Defaults are Anima's.
struct ConditionerConfig {
  int64_t vocab_size = 32128;   ///< of T5
  int64_t source_width = 1024;  ///< width of the text encoder's states
  int64_t width = 1024;
  int64_t hidden = 4096;
  int64_t num_layers = 6;
  int64_t num_heads = 16;
  int64_t num_rows = 512;  ///< rows that the transformer reads of a text that has not more; those without a token are zeros

  int64_t head_dim() const { return width / num_heads; }
};

/// Reads the numbers from tensor shapes (our names) and, where there is one, the component's config.json, which wins for what shapes cannot
/// tell. Throws a data Error when the two disagree, and for relatives of Anima that compute something else.
Config detect(const nlohmann::json* config_json, const io::Shapes& shapes);
ConditionerConfig detect_conditioner(const nlohmann::json* config_json, const io::Shapes& shapes);

}  // namespace burnish::models::anima
