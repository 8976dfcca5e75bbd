#include "models/families/ernie_image/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::ernie_image {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedder.proj.weight", 1, "in_channels"},
    {&Config::width, "x_embedder.proj.weight", 0, "hidden_size"},
    {&Config::num_layers, "layers.{}.self_attention.norm_q.weight", 0, "num_layers"},
    {&Config::head_dim, "layers.0.self_attention.norm_q.weight", 0, nullptr},
    {&Config::hidden, "layers.0.mlp.linear_fc2.weight", 1, "ffn_hidden_size"},
    {&Config::caption_width, "text_proj.weight", 1, "text_in_dim"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {32, 48, 48}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  auto num_heads = c.head_dim > 0 ? c.num_heads() : 0;
  agree_on(json, "num_attention_heads", num_heads, tensors);
  if (!tensors) {
    c.head_dim = num_heads > 0 ? c.width / num_heads : 0;
    c.axes_dims = default_axes_of(c.head_dim);
  }
  agree_on_known(json, "out_channels", c.in_channels);
  agree_on_known(json, "patch_size", int64_t{1});
  agree_on_known(json, "qk_layernorm", true);
  io::take(json, "eps", c.norm_eps, kWhat);
  io::take(json, "rope_theta", c.rope_theta, kWhat);
  io::take(json, "rope_axes_dim", c.axes_dims, kWhat);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.width, c.head_dim, c.hidden, c.caption_width});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostBlocks);
  if (c.width % c.head_dim != 0) data_error("models", "the transformer's width {} does not divide into heads of {}", c.width, c.head_dim);
  check_axes("rope_axes_dim", c.axes_dims, 3, c.head_dim);
  if (!(c.rope_theta > 0 && c.norm_eps > 0))
    data_error("models", "the transformer's config.json has rope_theta {} and eps {}, which are above 0 in every ERNIE-Image", c.rope_theta,
               c.norm_eps);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::ernie_image
