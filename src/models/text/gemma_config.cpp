#include "models/text/gemma_config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "models/text/shape_reading.h"

namespace burnish::models::text {

namespace {

using nlohmann::json;

std::string layer_of(int64_t layer) { return fmt::format("layers.{}.", layer); }

/// Throws a data Error where config.json says otherwise than all models that are read here have it, and no tensor tells it.
template <class T>
void expect(const json& config, const char* key, const T& only) {
  auto stated = only;
  take(config, key, stated);
  if (stated != only)
    data_error("models",
               "the config.json of the Gemma text encoder says {} = {}; {} was expected, since other Gemmas compute something else", key,
               json(stated).dump(), json(only).dump());
}

void refuse_relatives(const json& config, bool is_gemma4) {
  expect(config, "hidden_activation", std::string("gelu_pytorch_tanh"));
  expect(config, "attention_bias", false);
  expect(config, "num_kv_shared_layers", int64_t{0});
  expect(config, "enable_moe_block", false);
  expect(config, "hidden_size_per_layer_input", int64_t{0});
  expect(config, "attn_logit_softcapping", 0.0);
  // Gemma 4 says "vision": pictures see all of themselves, and texts what is before them.
  if (is_gemma4) expect(config, "use_bidirectional_attention", std::string("vision"));
  else expect(config, "use_bidirectional_attention", false);
}

/// Reads how often a layer sees all: from the list of all layers' kinds, or the number of older files.
void read_kinds(GemmaConfig& c, const json& config) {
  take(config, "sliding_window_pattern", c.full_every);
  take(config, "_sliding_window_pattern", c.full_every);
  std::vector<std::string> kinds;
  take(config, "layer_types", kinds);
  int64_t first = 0;
  while (first < std::ssize(kinds) && kinds[static_cast<size_t>(first)] != "full_attention") ++first;
  if (!kinds.empty()) c.full_every = first + 1;
  bool fits = c.full_every > 0 && (kinds.empty() || std::ssize(kinds) == c.num_layers);
  for (int64_t i = 0; fits && i < std::ssize(kinds); ++i)
    fits = kinds[static_cast<size_t>(i)] == (c.is_full(i) ? "full_attention" : "sliding_attention");
  if (!fits)
    data_error(
        "models",
        "the config.json of the Gemma text encoder names its {} layers' kinds (layer_types) in another order than is known here: every "
        "so many sliding_attention one full_attention",
        c.num_layers);
}

/// Reads the positions of one kind of layers, as transformers 5 keeps them.
void read_rope(GemmaAttention& a, const json& config, const char* kind) {
  if (!config.is_object() || !config.contains("rope_parameters")) return;
  const auto& all = config["rope_parameters"];
  if (!all.is_object() || !all.contains(kind)) return;
  const auto& own = all[kind];
  std::string type = "default";
  take(own, "rope_type", type);
  if (type != "default" && type != "linear" && type != "proportional")
    data_error("models", "the config.json of the Gemma text encoder stretches positions by '{}', which no Gemma that is read here does",
               type);
  take(own, "rope_theta", a.rope_theta);
  a.rope_factor = a.rotated = 1;
  take(own, "factor", a.rope_factor);
  if (type == "proportional") take(own, "partial_rotary_factor", a.rotated);
}

/// Reads them as transformers 4 does of Gemma 3: one base for each kind of layers, and a factor for those that see all.
void read_old_rope(GemmaConfig& c, const json& config) {
  if (!config.is_object() || config.contains("rope_parameters")) return;
  take(config, "rope_local_base_freq", c.sliding.rope_theta);
  take(config, "rope_theta", c.full.rope_theta);
  if (config.contains("rope_scaling") && config["rope_scaling"].is_object()) take(config["rope_scaling"], "factor", c.full.rope_factor);
}

void check_positions(const GemmaAttention& a, const char* kind) {
  if (!(a.rope_theta > 0 && a.rope_factor > 0 && a.rotated > 0 && a.rotated <= 1))
    data_error("models",
               "the config.json of the Gemma text encoder has rope_theta {}, factor {} and partial_rotary_factor {} for {} layers",
               a.rope_theta, a.rope_factor, a.rotated, kind);
}

/// Reads the heads of one kind of layers off the first of them. A model with too few layers has none of it.
void read_heads(GemmaConfig& c, GemmaAttention& a, int64_t layer, const io::Shapes& shapes) {
  if (layer >= c.num_layers) return;
  const auto attention = layer_of(layer) + "self_attn.";
  a.head_dim = dim_of(shapes, attention + "q_norm.weight", 0);
  a.num_kv_heads = dim_of(shapes, attention + "k_proj.weight", 0) / a.head_dim;
  a.has_values = shapes.contains(attention + "v_proj.weight");
  const auto num_heads = dim_of(shapes, attention + "q_proj.weight", 0) / a.head_dim;
  if (layer == 0) c.num_heads = num_heads;
  if (a.head_dim % 2 != 0 || a.num_kv_heads < 1 || num_heads != c.num_heads || num_heads % a.num_kv_heads != 0)
    data_error(
        "models",
        "the Gemma text encoder's {} heads of queries and {} of keys, {} wide, in layer {} do not fit together; its files are damaged",
        num_heads, a.num_kv_heads, a.head_dim, layer);
}

/// Throws a data Error where config.json says otherwise than the tensors.
void check_sizes(const GemmaConfig& c, const json& config) {
  agree(config, "vocab_size", c.vocab_size);
  agree(config, "hidden_size", c.width);
  agree(config, "intermediate_size", c.hidden);
  agree(config, "num_hidden_layers", c.num_layers);
  agree(config, "num_attention_heads", c.num_heads);
  if (c.is_full(0)) return;
  agree(config, "head_dim", c.sliding.head_dim);
  agree(config, "num_key_value_heads", c.sliding.num_kv_heads);
}

}  // namespace

GemmaConfig gemma4_12b() {
  return {.vocab_size = 262144,
          .sliding = {.window = 1024, .scale = 1},
          .full = {.num_kv_heads = 1, .head_dim = 512, .scale = 1, .rope_theta = 1e6, .rotated = 0.25, .has_values = false},
          .is_gemma4 = true};
}

GemmaConfig gemma_config(const json& config_json, const io::Shapes& shapes) {
  // A model that also sees keeps the numbers of its text part apart.
  const bool sees = config_json.is_object() && config_json.contains("text_config");
  const auto& config = sees ? config_json["text_config"] : config_json;
  const bool is_gemma4 = shapes.contains(layer_of(0) + "layer_scalar");
  auto c = is_gemma4 ? gemma4_12b() : GemmaConfig();
  refuse_relatives(config, is_gemma4);
  c.vocab_size = dim_of(shapes, "embed_tokens.weight", 0);
  c.width = dim_of(shapes, "embed_tokens.weight", 1);
  c.hidden = dim_of(shapes, layer_of(0) + "mlp.up_proj.weight", 0);
  c.num_layers = io::count_of(shapes, "layers.{}.");
  read_kinds(c, config);
  read_heads(c, c.is_full(0) ? c.full : c.sliding, 0, shapes);
  read_heads(c, c.full, c.full_every - 1, shapes);
  check_sizes(c, config);
  read_old_rope(c, config);
  read_rope(c.sliding, config, "sliding_attention");
  read_rope(c.full, config, "full_attention");
  check_positions(c.sliding, "sliding");
  check_positions(c.full, "full");
  take(config, "sliding_window", c.sliding.window);
  take(config, "rms_norm_eps", c.eps);
  double queries = is_gemma4 ? 1 : 256;
  if (!is_gemma4) take(config, "query_pre_attn_scalar", queries);
  io::check_above_0(static_cast<double>(c.sliding.window), "sliding_window", "Gemma text encoder");
  io::check_above_0(c.eps, "rms_norm_eps", "Gemma text encoder");
  io::check_above_0(queries, "query_pre_attn_scalar", "Gemma text encoder");
  c.sliding.scale = c.full.scale = 1 / std::sqrt(queries);
  return c;
}

}  // namespace burnish::models::text
