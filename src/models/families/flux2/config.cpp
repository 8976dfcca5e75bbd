#include "models/families/flux2/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::flux2 {

namespace {

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedder.weight", 1, "in_channels"},
    {&Config::num_double_blocks, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_single_blocks, "single_transformer_blocks.{}.attn.norm_q.weight", 0, "num_single_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "transformer_blocks.0.ff.linear_out.weight", 1, nullptr},
    {&Config::caption_width, "context_embedder.weight", 1, "joint_attention_dim"},
};

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.guidance_embeds = shapes.contains("time_guidance_embed.guidance_embedder.linear_1.weight");
  c.num_heads = io::side_of(shapes, "x_embedder.weight", 0, "transformer") / c.head_dim;
  c.axes_dims = even_axes(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "out_channels", c.in_channels);
  agree_on_known(json, "patch_size", int64_t{1});
  agree_on_known(json, "timestep_guidance_channels", int64_t{256});
  agree_on(json, "guidance_embeds", c.guidance_embeds, tensors);
  read_even_axes(c, json, tensors);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width});
  check_blocks({c.num_double_blocks, c.num_single_blocks});
  check_even_axes(c);
}

}  // namespace

Config klein_9b() { return {.num_double_blocks = 8, .num_single_blocks = 24, .num_heads = 32, .hidden = 12288, .caption_width = 12288}; }

Config dev() {
  return {
      .num_double_blocks = 8, .num_single_blocks = 48, .num_heads = 48, .hidden = 18432, .caption_width = 15360, .guidance_embeds = true};
}

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::flux2
