#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <variant>
#include <vector>

#include "io/key_map.h"

namespace burnish::models::text {

/// Says how the frequencies of rotated pairs are stretched for texts that are `factor` times as long as those of the first training (YaRN:
/// Peng et al. 2023, arXiv 2309.00071). It acts at every length. Defaults are Ministral-3's.
struct Yarn {
  double factor = 16;
  double first_length = 16384;           ///< tokens of a text in the first training
  double beta_fast = 32, beta_slow = 1;  ///< pairs that turn so often within it stay as they are, and are slowed down by `factor`
  double magnitude = 1;                  ///< what cos and sin are multiplied by
};

/// Says how Llama 3.1 stretches them (transformers: _compute_llama3_parameters): pairs that turn less than `low` times within the texts of
/// the first training are slowed down by `factor`, those that turn more than `high` times stay, and between these they go over evenly.
/// Defaults are Llama-3.1-8B's.
struct LlamaStretch {
  double factor = 8;
  double first_length = 8192;
  double low = 1, high = 4;
};

/// Numbers of what the layers of Qwen3.5 have beside Qwen3's: of so many layers all but the last have gated linear attention
/// (text/gated_delta.h) in place of attention, the last gates what its heads see and turns the first numbers of a head alone, and norms
/// multiply by 1 + weight. Defaults are Qwen3.5-9B's.
struct GatedLayers {
  int64_t full_every = 4;  ///< layers to one with attention
  int64_t num_rotated = 64;
  int64_t num_key_heads = 16, num_value_heads = 32;  ///< of linear attention
  int64_t key_dim = 128, value_dim = 128;            ///< numbers of its heads
  int64_t kernel = 4;                                ///< tokens that its convolution reads
  int64_t num_convolved() const { return 2 * num_key_heads * key_dim + num_value_heads * value_dim; }
};

/// Numbers of a Qwen text encoder, or of one of its kin. Defaults are Qwen3-4B's.
struct QwenConfig {
  int64_t vocab_size = 151936;
  int64_t width = 2560;
  int64_t hidden = 9728;  ///< width between the layers of the MLP
  int64_t num_layers = 36;
  int64_t num_heads = 32;
  int64_t num_kv_heads = 8;  ///< heads of keys and values, each for num_heads / num_kv_heads queries
  int64_t head_dim = 128;
  double eps = 1e-6;
  double rope_theta = 1e6;
  bool qkv_bias = false;  ///< whether query, key and value have biases: Qwen2 and Qwen2.5
  bool qk_norm = true;    ///< whether every head's query and key have an RMS norm: Qwen3, not Mistral
  std::variant<std::monostate, Yarn, LlamaStretch> stretch = {};  ///< of positions; none: as they are
  bool has_norm = true;  ///< whether there is a norm behind all layers; of encoders that were cut off there is none
  /// The numbers of a head's rotated pairs that turn with the place in time, with the row and with the column (Qwen2.5-VL), and again in
  /// this order as often as there are numbers (Qwen3-VL, where they take turns pair by pair). Without pictures all three are the place in
  /// the text.
  std::vector<int64_t> sections = {16, 24, 24};
  std::optional<GatedLayers> gated = {};  ///< Qwen3.5
};

/// Returns how many numbers of a head turn with its place.
int64_t num_rotated(const QwenConfig& config);

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; Qwen3's values then, which are also Qwen2.5-VL's).
/// Heads are as wide as the query norm, or else as config.json says, or 128.
QwenConfig qwen_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Returns the numbers of Qwen2.5-VL-7B's text part.
QwenConfig qwen25_vl_7b();

/// Reads the text part of Qwen3-VL, whose tensors are those of Qwen3: what config.json does not say is Qwen3-VL's.
QwenConfig qwen3_vl_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of the text parts of Qwen3-VL-2B, 4B and 8B.
QwenConfig qwen3_vl_2b();
QwenConfig qwen3_vl_4b();
QwenConfig qwen3_vl_8b();

/// Reads the text part of Qwen3.5: what config.json does not say is Qwen3.5's.
QwenConfig qwen35_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of the text part of Qwen3.5-9B.
QwenConfig qwen35_9b();

/// Reads Mistral's encoders, whose layers are Qwen's without norms of queries and keys: what config.json does not say is Ministral-3's.
QwenConfig ministral3_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of Ministral-3-3B.
QwenConfig ministral3_3b();

/// Reads Llama's, whose layers are those too: what config.json does not say is Llama-3.1-8B's.
QwenConfig llama_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Reads Mistral-Small-3's: what config.json does not say is of that, and of a file that ends behind the layers that are read there is no
/// norm.
QwenConfig mistral_small_config(const nlohmann::json& config_json, const io::Shapes& shapes);
/// Returns the numbers of Mistral-Small-3.2-24B.
QwenConfig mistral_small_24b();

}  // namespace burnish::models::text
