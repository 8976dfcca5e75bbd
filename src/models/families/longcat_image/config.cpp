#include "models/families/longcat_image/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::longcat_image {

namespace {

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedder.weight", 1, "in_channels"},
    {&Config::num_double_blocks, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_single_blocks, "single_transformer_blocks.{}.attn.norm_q.weight", 0, "num_single_layers"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::caption_width, "context_embedder.weight", 1, "joint_attention_dim"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {16, 56, 56}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "x_embedder.weight", 0, "transformer") / c.head_dim;
  c.axes_dims = default_axes_of(c.head_dim);
  const auto hidden = io::side_of(shapes, "transformer_blocks.0.ff.net.0.proj.weight", 0, "transformer");
  if (hidden != 4 * c.width())
    data_error("models",
               "the transformer's MLPs are {} wide, and LongCat-Image's are 4 times as wide as its tokens, {} here; it is another "
               "model's",
               hidden, 4 * c.width());
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "patch_size", int64_t{1});
  if (!tensors) c.axes_dims = default_axes_of(c.head_dim);
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.head_dim, c.num_heads, c.caption_width, c.width()});
  check_blocks({c.num_double_blocks, c.num_single_blocks});
  check_axes("axes_dims_rope", c.axes_dims, 3, c.head_dim);
  if (c.in_channels % 4 != 0) data_error("models", "the transformer takes {} channels; a multiple of 4 was expected", c.in_channels);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::longcat_image
