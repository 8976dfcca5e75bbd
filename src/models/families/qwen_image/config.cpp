#include "models/families/qwen_image/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::qwen_image {

namespace {

constexpr const char* kWhat = "transformer";
/// What Qwen-Image-Layered adds to the time: the row 0 of two.
constexpr const char* kLayersMark = "time_text_embed.addition_t_embedding.weight";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "img_in.weight", 1, "in_channels"},
    {&Config::num_layers, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "transformer_blocks.0.img_mlp.net.0.proj.weight", 0, nullptr},
    {&Config::caption_width, "txt_in.weight", 1, "joint_attention_dim"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {16, 56, 56}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "img_in.weight", 0, kWhat) / c.head_dim;
  c.axes_dims = default_axes_of(c.head_dim);
  c.has_layers = shapes.contains(kLayersMark);
}

/// Qwen-Image-Layered has both switches on and the tensor that goes with one of them, others none of the three.
void read_layers(Config& c, const nlohmann::json& json, bool tensors) {
  if (!tensors) io::take(json, "use_additional_t_cond", c.has_layers, kWhat);
  for (const char* key : {"use_layer3d_rope", "use_additional_t_cond"}) {
    bool is_on = tensors && !json.contains(key) ? c.has_layers : false;
    io::take(json, key, is_on, kWhat);
    if (is_on != c.has_layers)
      data_error("models", "the transformer's config.json switches {} {}, and what else is there is {}Qwen-Image-Layered's", key,
                 is_on ? "on" : "off", c.has_layers ? "" : "not ");
  }
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  bool is_guided = false;
  io::take(json, "guidance_embeds", is_guided, kWhat);
  if (is_guided)
    data_error("models",
               "the transformer's config.json switches guidance_embeds on, and no Qwen-Image that can be opened here is told of it");
  read_layers(c, json, tensors);
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "out_channels", c.in_channels / 4);
  agree_on_known(json, "patch_size", int64_t{2});
  if (!tensors) {
    c.hidden = 4 * c.width();
    c.axes_dims = default_axes_of(c.head_dim);
  }
  io::take(json, "axes_dims_rope", c.axes_dims, kWhat);
  io::take(json, "zero_cond_t", c.zero_cond_t, kWhat);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels / 4, c.num_heads, c.head_dim, c.hidden, c.caption_width, c.width()});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostBlocks);
  check_axes("axes_dims_rope", c.axes_dims, 3, c.head_dim);
  if (c.has_layers && c.zero_cond_t)
    data_error("models",
               "the transformer's config.json switches zero_cond_t on, which is of Qwen-Image-Edit-2511, and makes layers; it is no "
               "published model");
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::qwen_image
