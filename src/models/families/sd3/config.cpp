#include "models/families/sd3/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::sd3 {

namespace {

constexpr const char *kNormMark = "transformer_blocks.0.attn.norm_q.weight", *kPlaces = "pos_embed.pos_embed";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "pos_embed.proj.weight", 1, "in_channels"},
    {&Config::num_layers, "transformer_blocks.{}.attn.to_q.weight", 0, "num_layers"},
    {&Config::head_dim, kNormMark, 0, "attention_head_dim"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::caption_width, "context_embedder.weight", 1, "joint_attention_dim"},
    {&Config::pooled_width, "time_text_embed.text_embedder.linear_1.weight", 1, "pooled_projection_dim"},
    {&Config::most_places, nullptr, 0, "pos_embed_max_size"},
};

[[noreturn]] void refuse_without_norms() {
  data_error("models",
             "the transformer has no norms of queries and keys, as Stable Diffusion 3 Medium of 2024; norms were expected, as 3.5 Medium, "
             "Large and Large Turbo have them: take one of these");
}

void read_sd3_shapes(Config& c, const io::Shapes& shapes) {
  if (!shapes.contains(kNormMark)) refuse_without_norms();
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "pos_embed.proj.weight", 0, "transformer") / c.head_dim;
  const auto num_places = io::side_of(shapes, kPlaces, 1, "transformer");
  c.most_places = std::llround(std::sqrt(static_cast<double>(num_places)));
  if (c.most_places * c.most_places != num_places)
    data_error("models", "the tensor '{}' of the transformer has {} places, and a square number was expected", kPlaces, num_places);
  c.dual_layers.clear();
  for (int64_t i = 0; i < c.num_layers; ++i)
    if (shapes.contains(fmt::format("transformer_blocks.{}.attn2.to_q.weight", i))) c.dual_layers.push_back(i);
}

void read_sd3_config(Config& c, const nlohmann::json& json, bool tensors) {
  std::string norm;
  if (!tensors) c.dual_layers.clear();  // where config.json names none, there are none
  if (!tensors && !io::take(json, "qk_norm", norm, "transformer")) refuse_without_norms();
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "dual_attention_layers", c.dual_layers, tensors);
  agree_on_known(json, "qk_norm", std::string("rms_norm"));
  agree_on_known(json, "patch_size", int64_t{2});
  agree_on_known(json, "out_channels", c.in_channels);
  agree_on_known(json, "caption_projection_dim", c.width());
}

void check_sd3(const Config& c) {
  check_sizes({c.in_channels, c.head_dim, c.num_heads, c.caption_width, c.pooled_width, c.most_places});
  check_blocks({c.num_layers});
  if (c.head_dim % 2 != 0) data_error("models", "the transformer's heads have {} numbers each; an even number was expected", c.head_dim);
}

}  // namespace

bool Config::is_dual(int64_t block) const { return std::ranges::find(dual_layers, block) != dual_layers.end(); }

Config large() { return {.num_layers = 38, .num_heads = 38, .most_places = 192, .dual_layers = {}}; }

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_sd3_shapes, read_sd3_config, check_sd3);
}

}  // namespace burnish::models::sd3
