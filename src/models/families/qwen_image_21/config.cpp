#include "models/families/qwen_image_21/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::qwen_image_21 {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "img_in.weight", 1, "in_channels"},
    {&Config::num_layers, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "transformer_blocks.0.img_mlp.out.weight", 1, nullptr},
    {&Config::caption_width, "txt_in.in_layer.weight", 1, "context_in_dim"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {16, 56, 56}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "img_in.weight", 0, kWhat) / c.head_dim;
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  int64_t ratio = c.width() > 0 ? c.hidden / c.width() : 0;
  agree_on(json, "mlp_ratio", ratio, tensors);
  if (!tensors) {
    c.hidden = ratio * c.width();
    c.axes_dims = default_axes_of(c.head_dim);
  }
  agree_on_known(json, "out_channels", c.in_channels);
  agree_on_known(json, "patch_size", int64_t{1});
  agree_on_known(json, "causal_condition", true);
  io::take(json, "axes_dims_rope", c.axes_dims, kWhat);
  io::take(json, "eps", c.norm_eps, kWhat);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostBlocks);
  check_axes("axes_dims_rope", c.axes_dims, 3, c.head_dim);
  if (!(c.norm_eps > 0)) data_error("models", "the transformer's config.json has eps {}, which is above 0", c.norm_eps);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::qwen_image_21
