#include "models/families/chroma/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::chroma {

namespace {

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedder.weight", 1, "in_channels"},
    {&Config::num_double_blocks, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_single_blocks, "single_transformer_blocks.{}.attn.norm_q.weight", 0, "num_single_layers"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::caption_width, "context_embedder.weight", 1, "joint_attention_dim"},
    {&Config::mlp_hidden, "transformer_blocks.0.ff.net.0.proj.weight", 0, nullptr},
    {&Config::time_channels, "distilled_guidance_layer.in_proj.weight", 1, "approximator_num_channels"},
    {&Config::time_hidden, "distilled_guidance_layer.in_proj.weight", 0, "approximator_hidden_dim"},
    {&Config::num_time_layers, "distilled_guidance_layer.norms.{}.weight", 0, "approximator_layers"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {16, 56, 56}); }

void read_chroma_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "x_embedder.weight", 0, "transformer") / c.head_dim;
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_chroma_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "out_channels", c.in_channels);
  if (!tensors) {
    c.axes_dims = default_axes_of(c.head_dim);
    c.mlp_hidden = 4 * c.width();
  }
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
}

void check_chroma(const Config& c) {
  check_sizes({c.in_channels, c.head_dim, c.num_heads, c.caption_width, c.mlp_hidden, c.time_channels, c.time_hidden});
  for (auto count : {c.num_double_blocks, c.num_single_blocks, c.num_time_layers}) {
    if (count < 1 || count > kMostBlocks)
      data_error("models", "the transformer has {} blocks or layers of a kind; 1 to {} were expected", count, kMostBlocks);
  }
  check_axes("axes_dims_rope", c.axes_dims, 3, c.head_dim);
  if (c.in_channels % 4 != 0 || c.time_channels % 8 != 0)
    data_error("models", "the transformer takes {} channels and its approximator {}; multiples of 4 and of 8 were expected", c.in_channels,
               c.time_channels);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_chroma_shapes, read_chroma_config, check_chroma);
}

}  // namespace burnish::models::chroma
