#include "models/chroma/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "models/config_values.h"

namespace burnish::models::chroma {

namespace {

constexpr int64_t kLargestWidth = 1 << 20, kMostBlocks = 4096;

int64_t count_by_norms(const io::Shapes& shapes, const std::string& prefix) {
  int64_t count = 0;
  while (shapes.contains(prefix + std::to_string(count) + ".attn.norm_q.weight")) ++count;
  return count;
}

/// A head of 128 is split as 16 + 56 + 56; other heads keep its proportions on even numbers.
std::vector<int64_t> axes_of(int64_t head_dim) {
  auto first = head_dim / 8 / 2 * 2, second = (head_dim - first) / 2 / 2 * 2;
  return {head_dim - 2 * second, second, second};
}

void read_chroma_shapes(Config& c, const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "transformer"); };
  c.in_channels = side("x_embedder.weight", 1);
  c.caption_width = side("context_embedder.weight", 1);
  c.num_double_blocks = count_by_norms(shapes, "transformer_blocks.");
  c.num_single_blocks = count_by_norms(shapes, "single_transformer_blocks.");
  c.head_dim = side("transformer_blocks.0.attn.norm_q.weight", 0);
  c.num_heads = side("x_embedder.weight", 0) / c.head_dim;
  c.mlp_hidden = side("transformer_blocks.0.ff.net.0.proj.weight", 0);
  c.time_channels = side("distilled_guidance_layer.in_proj.weight", 1);
  c.time_hidden = side("distilled_guidance_layer.in_proj.weight", 0);
  c.num_time_layers = 0;
  while (shapes.contains("distilled_guidance_layer.norms." + std::to_string(c.num_time_layers) + ".weight")) ++c.num_time_layers;
  c.axes_dims = axes_of(c.head_dim);
}

void read_chroma_config(Config& c, const nlohmann::json& json, bool tensors) {
  agree_on(json, "in_channels", c.in_channels, tensors);
  agree_on(json, "num_layers", c.num_double_blocks, tensors);
  agree_on(json, "num_single_layers", c.num_single_blocks, tensors);
  agree_on(json, "attention_head_dim", c.head_dim, tensors);
  agree_on(json, "num_attention_heads", c.num_heads, tensors);
  agree_on(json, "joint_attention_dim", c.caption_width, tensors);
  agree_on(json, "approximator_num_channels", c.time_channels, tensors);
  agree_on(json, "approximator_hidden_dim", c.time_hidden, tensors);
  agree_on(json, "approximator_layers", c.num_time_layers, tensors);
  if (!tensors) {
    c.axes_dims = axes_of(c.head_dim);
    c.mlp_hidden = 4 * c.width();
  }
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
}

void check_chroma(const Config& c) {
  for (auto size : {c.in_channels, c.head_dim, c.num_heads, c.caption_width, c.mlp_hidden, c.time_channels, c.time_hidden}) {
    if (size < 1 || size > kLargestWidth)
      data_error("models", "the transformer's config.json or tensors give it a size of {}; sizes are from 1 to {}", size, kLargestWidth);
  }
  for (auto count : {c.num_double_blocks, c.num_single_blocks, c.num_time_layers}) {
    if (count < 1 || count > kMostBlocks)
      data_error("models", "the transformer has {} blocks or layers of a kind; 1 to {} were expected", count, kMostBlocks);
  }
  auto sum = std::accumulate(c.axes_dims.begin(), c.axes_dims.end(), int64_t{0});
  auto is_even = [](int64_t width) { return width > 0 && width % 2 == 0; };
  if (c.axes_dims.size() != 3 || sum != c.head_dim || !std::ranges::all_of(c.axes_dims, is_even))
    data_error("models", "axes_dims_rope {} must be three even numbers that sum to the head width {}", c.axes_dims, c.head_dim);
  if (c.in_channels % 4 != 0 || c.time_channels % 8 != 0)
    data_error("models", "the transformer takes {} channels and its approximator {}; multiples of 4 and of 8 were expected", c.in_channels,
               c.time_channels);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  Config c;
  bool tensors = !shapes.empty();
  if (tensors) read_chroma_shapes(c, shapes);
  if (config_json) read_chroma_config(c, *config_json, tensors);
  else if (!tensors) data_error("models", "neither config.json nor weights to read the transformer's size from");
  check_chroma(c);
  return c;
}

}  // namespace burnish::models::chroma
