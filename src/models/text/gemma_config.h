#pragma once
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"

namespace burnish::models::text {

/// The attention of one kind of layers of a Gemma.
struct GemmaAttention {
  int64_t num_kv_heads = 8;  ///< heads of keys and values, each for num_heads / num_kv_heads queries
  int64_t head_dim = 256;
  int64_t window = 0;       ///< how many tokens one sees, the last of which is itself; 0: all before it
  double scale = 1.0 / 16;  ///< of the products of queries and keys
  double rope_theta = 1e4;
  double rope_factor = 1;  ///< what frequencies are divided by
  double rotated = 1;      ///< the share of a head's pairs that turn, those of the highest frequencies
  bool has_values = true;  ///< whether values have a projection of their own; where not, they are the keys before their norm
};

/// Numbers of the text part of a Gemma 3, or of a Gemma 4 without experts, shared keys and embeddings of layers. Defaults are those of
/// Gemma-3-12B.
struct GemmaConfig {
  int64_t vocab_size = 262208;
  int64_t width = 3840;
  int64_t hidden = 15360;  ///< width between the layers of the MLP
  int64_t num_layers = 48;
  int64_t num_heads = 16;
  GemmaAttention sliding{.window = 1024};
  GemmaAttention full{.rope_theta = 1e6, .rope_factor = 8};  ///< of every `full_every`-th layer
  int64_t full_every = 6;
  double eps = 1e-6;
  /// Gemma 4's norms multiply by their weight, and not by 1 + weight; its values have a norm without weights, and each of its layers
  /// multiplies what it gives by a number of its own.
  bool is_gemma4 = false;
  bool is_full(int64_t layer) const { return (layer + 1) % full_every == 0; }
  const GemmaAttention& attention(int64_t layer) const { return is_full(layer) ? full : sliding; }
};

/// Reads sizes from shapes (our names) and the rest from config.json, that of the whole model or of its text part; null for none, and what
/// it does not say is Gemma-3-12B's, or Gemma-4-12B's where layers have a number of their own. A data Error for a relative that computes
/// something else.
GemmaConfig gemma_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of the text part of Gemma-4-12B.
GemmaConfig gemma4_12b();

}  // namespace burnish::models::text
