#include "models/families/anima/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::anima {

namespace {

constexpr const char *kWhat = "transformer", *kWhatConditions = "text conditioner";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, nullptr, 0, "in_channels"},
    {&Config::out_channels, nullptr, 0, "out_channels"},
    {&Config::num_layers, "transformer_blocks.{}.attn1.norm_q.weight", 0, "num_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, "transformer_blocks.0.attn1.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "transformer_blocks.0.ff.net.0.proj.weight", 0, nullptr},
    {&Config::modulation_rank, "transformer_blocks.0.norm1.linear_1.weight", 0, "adaln_lora_dim"},
    {&Config::caption_width, "transformer_blocks.0.attn2.to_k.weight", 1, "text_embed_dim"},
};
constexpr Number<ConditionerConfig> kConditionerNumbers[] = {
    {&ConditionerConfig::vocab_size, "embed.weight", 0, "target_vocab_size"},
    {&ConditionerConfig::source_width, "blocks.0.cross_attn.k_proj.weight", 1, "source_dim"},
    {&ConditionerConfig::width, "embed.weight", 1, "model_dim"},
    {&ConditionerConfig::hidden, "blocks.0.mlp.0.weight", 0, nullptr},
    {&ConditionerConfig::num_layers, "blocks.{}.norm_mlp.weight", 0, "num_layers"},
    {&ConditionerConfig::num_heads, nullptr, 0, "num_attention_heads"},
};

/// Numbers of a token, which holds 2 × 2 latents of one frame.
constexpr int64_t kPatch = 4;

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "transformer_blocks.0.attn1.to_q.weight", 0, kWhat) / c.head_dim;
  c.in_channels = io::side_of(shapes, "patch_embed.proj.weight", 1, kWhat) / kPatch - 1;
  c.out_channels = io::side_of(shapes, "proj_out.weight", 0, kWhat) / kPatch;
}

/// The width of the MLP, which config.json says as a multiple.
int64_t hidden_of(const nlohmann::json& json, int64_t width, const char* what) {
  double ratio = 4;
  io::take(json, "mlp_ratio", ratio, what);
  io::check_above_0(ratio, "mlp_ratio", what);
  return static_cast<int64_t>(std::min(static_cast<double>(width) * ratio, static_cast<double>(kLargestSize) + 1));
}

void agree_on_hidden(const nlohmann::json& json, int64_t width, int64_t& hidden, bool tensors, const char* what) {
  const auto stated = hidden_of(json, width, what);
  if (!tensors) hidden = stated;
  if (stated != hidden && json.contains("mlp_ratio"))
    data_error("models", "config.json says mlp_ratio = {} but the tensors say {} / {}; the folder mixes two models",
               json["mlp_ratio"].dump(), hidden, width);
}

/// Refuses what other models of Cosmos compute beside these.
void check_kind(const nlohmann::json& json) {
  for (const char* key : {"extra_pos_embed_type", "img_context_dim_in", "controlnet_block_every_n"}) {
    auto it = json.find(key);
    if (it != json.end() && !it->is_null())
      data_error("models", "the config.json of the transformer has {} = {}, which is of another Cosmos than Anima's; it has null there",
                 key, it->dump());
  }
  agree_on_known(json, "concat_padding_mask", true);
  agree_on_known(json, "use_crossattn_projection", false);
  agree_on_known(json, "patch_size", std::vector<int64_t>{1, 2, 2});
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  check_kind(json);
  agree_on_hidden(json, c.width(), c.hidden, tensors, kWhat);
  io::take(json, "rope_scale", c.rope_scale, kWhat);
}

void check_layers(const char* what, int64_t count) {
  if (count < 1 || count > kMostBlocks)
    data_error("models", "the config.json or tensors of the {} give it {} layers; 1 to {} were expected", what, count, kMostBlocks);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.out_channels, c.num_heads, c.head_dim, c.hidden, c.modulation_rank, c.caption_width});
  check_layers(kWhat, c.num_layers);
  constexpr int64_t kLeastAxis = 4;  // how far a scale reaches depends on more than one turn of an axis
  auto axes = c.axes_dims();
  if (c.head_dim % 2 != 0 || *std::ranges::min_element(axes) < kLeastAxis)
    data_error("models", "the transformer's heads are {} wide; an even width from {} on was expected", c.head_dim, 3 * kLeastAxis);
  bool fits = c.rope_scale.size() == axes.size() && std::ranges::all_of(c.rope_scale, [](double scale) { return scale > 0; });
  if (!fits)
    data_error("models", "the transformer's config.json has rope_scale {}; three numbers above 0 were expected",
               nlohmann::json(c.rope_scale).dump());
}

void read_conditioner_shapes(ConditionerConfig& c, const io::Shapes& shapes) {
  read_tensors(c, kConditionerNumbers, shapes);
  c.num_heads = c.width / io::side_of(shapes, "blocks.0.self_attn.q_norm.weight", 0, kWhatConditions);
}

void read_conditioner_config(ConditionerConfig& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kConditionerNumbers, json, tensors);
  agree_on_known(json, "target_dim", c.width);
  agree_on_known(json, "use_self_attention", true);
  agree_on_known(json, "use_layer_norm", false);
  agree_on_hidden(json, c.width, c.hidden, tensors, kWhatConditions);
  io::take(json, "min_sequence_length", c.num_rows, kWhatConditions);
}

void check_conditioner(const ConditionerConfig& c) {
  check_sizes({c.vocab_size, c.source_width, c.width, c.hidden, c.num_heads});
  check_layers(kWhatConditions, c.num_layers);
  if (c.width % c.num_heads != 0 || c.head_dim() % 2 != 0)
    data_error("models", "the text conditioner is {} wide and has {} heads; heads of an even width were expected", c.width, c.num_heads);
  if (c.num_rows < 0 || c.num_rows > kLargestSize)
    data_error("models", "the config.json of the text conditioner has min_sequence_length = {}; 0 to {} were expected", c.num_rows,
               kLargestSize);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

ConditionerConfig detect_conditioner(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_conditioner_shapes, read_conditioner_config, check_conditioner);
}

}  // namespace burnish::models::anima
