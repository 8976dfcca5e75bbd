#include "models/families/flux/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::flux {

namespace {

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedder.weight", 1, "in_channels"},
    {&Config::out_channels, nullptr, 0, "out_channels"},
    {&Config::num_double_blocks, "transformer_blocks.{}.", 0, "num_layers"},
    {&Config::num_single_blocks, "single_transformer_blocks.{}.", 0, "num_single_layers"},
    {&Config::head_dim, nullptr, 0, "attention_head_dim"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::joint_attention_dim, "context_embedder.weight", 1, "joint_attention_dim"},
    {&Config::pooled_projection_dim, "time_text_embed.text_embedder.linear_1.weight", 1, "pooled_projection_dim"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {16, 56, 56}); }

void read_shapes(Config& c, const Shapes& shapes) {
  auto dim = [&](const std::string& name, size_t d) { return io::side_of(shapes, name, d, "transformer"); };
  auto width = dim("x_embedder.weight", 0);
  read_tensors(c, kNumbers, shapes);
  c.out_channels = shapes.contains("proj_out.weight") ? dim("proj_out.weight", 0) : c.in_channels;  // a ControlNet has no last layer
  c.guidance_embeds = shapes.contains("time_text_embed.guidance_embedder.linear_1.weight");
  auto norm = shapes.find("transformer_blocks.0.attn.norm_q.weight");
  if (norm == shapes.end()) norm = shapes.find("single_transformer_blocks.0.attn.norm_q.weight");
  if (norm == shapes.end()) data_error("models", "the transformer has no blocks: no tensor named transformer_blocks.0.attn.norm_q.weight");
  c.head_dim = dim(norm->first, 0);
  c.num_heads = width / c.head_dim;
  if (c.num_heads * c.head_dim != width)
    data_error("models", "the transformer's width {} does not divide into heads of {}: '{}' or x_embedder.weight is damaged", width,
               c.head_dim, norm->first);
  if (const std::string mlp = "transformer_blocks.0.ff.net.0.proj.weight"; shapes.contains(mlp))
    c.mlp_ratio = static_cast<double>(dim(mlp, 0)) / static_cast<double>(width);
  c.axes_dims_rope = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  if (!tensors) io::take(json, "in_channels", c.out_channels, "transformer");  // where config.json has no out_channels, they are as many
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "guidance_embeds", c.guidance_embeds, tensors);
  if (!tensors) c.axes_dims_rope = default_axes_of(c.head_dim);
  io::take(json, "axes_dims_rope", c.axes_dims_rope, "transformer");
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.out_channels, c.head_dim, c.num_heads, c.joint_attention_dim, c.pooled_projection_dim});
  for (auto count : {c.num_double_blocks, c.num_single_blocks}) {
    if (count < 0 || count > kMostBlocks)
      data_error("models", "the transformer's config.json gives it {} blocks of a kind; 0 to {} were expected", count, kMostBlocks);
  }
  check_axes("axes_dims_rope", c.axes_dims_rope, 3, c.head_dim);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::flux
