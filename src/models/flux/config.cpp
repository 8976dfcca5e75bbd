#include "models/flux/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "io/model_values.h"

namespace burnish::models::flux {

namespace {

constexpr int64_t kLargestSize = 1 << 20, kMostBlocks = 4096;

int64_t count_blocks(const Shapes& shapes, const std::string& prefix) {
  int64_t count = 0;
  while (shapes.lower_bound(prefix + std::to_string(count) + ".") != shapes.end() &&
         shapes.lower_bound(prefix + std::to_string(count) + ".")->first.starts_with(prefix + std::to_string(count) + ".")) {
    ++count;
  }
  return count;
}

/// FLUX.1 splits a head of 128 as 16 + 56 + 56; other head widths keep its proportions on even numbers.
std::vector<int64_t> default_axes(int64_t head_dim) {
  int64_t first = head_dim / 8 / 2 * 2;
  int64_t second = (head_dim - first) / 2 / 2 * 2;
  return {head_dim - 2 * second, second, second};
}

void read_shapes(Config& c, const Shapes& shapes) {
  auto dim = [&](const std::string& name, size_t d) { return io::side_of(shapes, name, d, "transformer"); };
  auto width = dim("x_embedder.weight", 0);
  c.in_channels = dim("x_embedder.weight", 1);
  c.out_channels = shapes.contains("proj_out.weight") ? dim("proj_out.weight", 0) : c.in_channels;  // a ControlNet has no last layer
  c.joint_attention_dim = dim("context_embedder.weight", 1);
  c.pooled_projection_dim = dim("time_text_embed.text_embedder.linear_1.weight", 1);
  c.guidance_embeds = shapes.contains("time_text_embed.guidance_embedder.linear_1.weight");
  c.num_double_blocks = count_blocks(shapes, "transformer_blocks.");
  c.num_single_blocks = count_blocks(shapes, "single_transformer_blocks.");
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
  c.axes_dims_rope = default_axes(c.head_dim);
}

template <class T>
void agree(const nlohmann::json& json, const char* key, T& value, bool from_shapes) {
  auto stated = value;
  if (!io::take(json, key, stated, "transformer")) return;
  if (from_shapes && stated != value) {
    data_error("models", "config.json says {} = {} but the tensors say {}; the folder mixes two models", key, stated, value);
  }
  value = stated;
}

}  // namespace

Config detect(const nlohmann::json* config_json, const Shapes& shapes) {
  Config c;
  bool tensors = !shapes.empty();
  if (tensors) read_shapes(c, shapes);
  if (config_json) {
    const auto& json = *config_json;
    agree(json, "in_channels", c.in_channels, tensors);
    if (!tensors) c.out_channels = c.in_channels;
    agree(json, "out_channels", c.out_channels, tensors);
    agree(json, "num_layers", c.num_double_blocks, tensors);
    agree(json, "num_single_layers", c.num_single_blocks, tensors);
    agree(json, "attention_head_dim", c.head_dim, tensors);
    agree(json, "num_attention_heads", c.num_heads, tensors);
    agree(json, "joint_attention_dim", c.joint_attention_dim, tensors);
    agree(json, "pooled_projection_dim", c.pooled_projection_dim, tensors);
    agree(json, "guidance_embeds", c.guidance_embeds, tensors);
    if (!tensors) c.axes_dims_rope = default_axes(c.head_dim);
    agree(json, "axes_dims_rope", c.axes_dims_rope, false);
  } else if (!tensors) {
    data_error("models", "neither config.json nor weights to read the transformer's size from");
  }
  for (auto size : {c.in_channels, c.out_channels, c.head_dim, c.num_heads, c.joint_attention_dim, c.pooled_projection_dim}) {
    if (size < 1 || size > kLargestSize)
      data_error("models", "the transformer's config.json or tensors give it a size of {}; sizes are from 1 to {}", size, kLargestSize);
  }
  for (auto count : {c.num_double_blocks, c.num_single_blocks}) {
    if (count < 0 || count > kMostBlocks)
      data_error("models", "the transformer's config.json gives it {} blocks of a kind; 0 to {} were expected", count, kMostBlocks);
  }
  auto sum = std::accumulate(c.axes_dims_rope.begin(), c.axes_dims_rope.end(), int64_t{0});
  auto is_even = [](int64_t width) { return width > 0 && width % 2 == 0; };
  if (c.axes_dims_rope.size() != 3 || sum != c.head_dim || !std::ranges::all_of(c.axes_dims_rope, is_even)) {
    data_error("models", "axes_dims_rope {} must be three even numbers that sum to the head width {}", c.axes_dims_rope, c.head_dim);
  }
  return c;
}

}  // namespace burnish::models::flux
