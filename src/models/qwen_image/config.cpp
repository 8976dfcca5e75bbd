#include "models/qwen_image/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "io/model_values.h"

namespace burnish::models::qwen_image {

namespace {

constexpr int64_t kMostWidth = 1 << 20, kMostLayers = 4096;
constexpr const char* kWhat = "transformer";
const std::string kFirstBlock = "transformer_blocks.0.";

int64_t count_layers(const io::Shapes& shapes) {
  int64_t count = 0;
  while (shapes.contains("transformer_blocks." + std::to_string(count) + ".attn.norm_q.weight")) ++count;
  return count;
}

/// Qwen-Image splits a head of 128 as 16 + 56 + 56; other heads keep its proportions on even numbers.
std::vector<int64_t> default_axes_of(int64_t head_dim) {
  auto plane = head_dim * 7 / 16 / 2 * 2;
  return {head_dim - 2 * plane, plane, plane};
}

void read_shapes(Config& c, const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kWhat); };
  c.in_channels = side("img_in.weight", 1);
  c.num_layers = count_layers(shapes);
  c.head_dim = side(kFirstBlock + "attn.norm_q.weight", 0);
  c.num_heads = c.head_dim > 0 ? side("img_in.weight", 0) / c.head_dim : 0;
  c.hidden = side(kFirstBlock + "img_mlp.net.0.proj.weight", 0);
  c.caption_width = side("txt_in.weight", 1);
  c.axes_dims = default_axes_of(c.head_dim);
}

void agree_on(const nlohmann::json& json, const char* key, int64_t& value, bool from_shapes) {
  auto stated = value;
  if (!io::take(json, key, stated, kWhat)) return;
  if (from_shapes && stated != value)
    data_error("models", "config.json says {} = {} but the tensors say {}; the folder mixes two models", key, stated, value);
  value = stated;
}

/// Switches of models that are not this one, whose tensors have the same names and shapes.
void refuse_others(const nlohmann::json& json) {
  for (const char* key : {"use_layer3d_rope", "use_additional_t_cond", "guidance_embeds"}) {
    bool is_on = false;
    io::take(json, key, is_on, kWhat);
    if (is_on)
      data_error(
          "models",
          "the transformer's config.json switches {} on, as Qwen-Image-Layered does; Qwen-Image and Qwen-Image-Edit can be opened here",
          key);
  }
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  refuse_others(json);
  agree_on(json, "in_channels", c.in_channels, tensors);
  agree_on(json, "num_layers", c.num_layers, tensors);
  agree_on(json, "num_attention_heads", c.num_heads, tensors);
  agree_on(json, "attention_head_dim", c.head_dim, tensors);
  agree_on(json, "joint_attention_dim", c.caption_width, tensors);
  auto out_channels = c.in_channels / 4;
  agree_on(json, "out_channels", out_channels, true);
  int64_t patch = 2;
  agree_on(json, "patch_size", patch, true);
  if (!tensors) {
    c.hidden = 4 * c.width();
    c.axes_dims = default_axes_of(c.head_dim);
  }
  io::take(json, "axes_dims_rope", c.axes_dims, kWhat);
  io::take(json, "zero_cond_t", c.zero_cond_t, kWhat);
}

void check_config(const Config& c) {
  for (auto size : {c.in_channels / 4, c.num_heads, c.head_dim, c.hidden, c.caption_width, c.width()}) {
    if (size < 1 || size > kMostWidth)
      data_error("models", "the transformer's config.json or tensors give it a size of {}; sizes are from 1 to {}", size, kMostWidth);
  }
  if (c.num_layers < 1 || c.num_layers > kMostLayers)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostLayers);
  auto is_even = [](int64_t dim) { return dim > 0 && dim % 2 == 0; };
  auto sum = std::accumulate(c.axes_dims.begin(), c.axes_dims.end(), int64_t{0});
  if (c.axes_dims.size() != 3 || sum != c.head_dim || !std::ranges::all_of(c.axes_dims, is_even))
    data_error("models", "axes_dims_rope {} must be three even numbers that sum to the head width {}", c.axes_dims, c.head_dim);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  Config c;
  bool tensors = !shapes.empty();
  if (tensors) read_shapes(c, shapes);
  else if (!config_json) data_error("models", "neither config.json nor weights to read the transformer's size from");
  if (config_json) read_config(c, *config_json, tensors);
  check_config(c);
  return c;
}

}  // namespace burnish::models::qwen_image
