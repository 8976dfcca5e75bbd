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

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {1, 1, 1, 1}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.guidance_embeds = shapes.contains("time_guidance_embed.guidance_embedder.linear_1.weight");
  c.num_heads = io::side_of(shapes, "x_embedder.weight", 0, "transformer") / c.head_dim;
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "out_channels", c.in_channels);
  agree_on_known(json, "patch_size", int64_t{1});
  agree_on_known(json, "timestep_guidance_channels", int64_t{256});
  agree_on(json, "guidance_embeds", c.guidance_embeds, tensors);
  if (!tensors) {
    double ratio = 3;
    io::take(json, "mlp_ratio", ratio, "transformer");
    c.hidden = static_cast<int64_t>(ratio * static_cast<double>(c.width()));
    c.axes_dims = default_axes_of(c.head_dim);
  }
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
  io::take(json, "rope_theta", c.rope_theta, "transformer");
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width});
  for (auto count : {c.num_double_blocks, c.num_single_blocks}) {
    if (count < 1 || count > kMostBlocks)
      data_error("models", "the transformer's config.json or tensors give it {} blocks of a kind; 1 to {} were expected", count,
                 kMostBlocks);
  }
  check_axes("axes_dims_rope", c.axes_dims, 4, c.head_dim);
  if (!(c.rope_theta > 0)) data_error("models", "the transformer's config.json has rope_theta {}, which is above 0", c.rope_theta);
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
