#include "models/flux2/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"
#include "models/config_values.h"

namespace burnish::models::flux2 {

namespace {

constexpr int64_t kMostWidth = 1 << 20, kMostBlocks = 4096;

int64_t count_blocks(const io::Shapes& shapes, const std::string& stack) {
  int64_t count = 0;
  while (shapes.contains(stack + std::to_string(count) + ".attn.norm_q.weight")) ++count;
  return count;
}

/// FLUX.2 splits a head into four equal parts.
std::vector<int64_t> default_axes_of(int64_t head_dim) { return {head_dim / 4, head_dim / 4, head_dim / 4, head_dim / 4}; }

void read_shapes(Config& c, const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, "transformer"); };
  c.in_channels = side("x_embedder.weight", 1);
  c.num_double_blocks = count_blocks(shapes, "transformer_blocks.");
  c.num_single_blocks = count_blocks(shapes, "single_transformer_blocks.");
  c.head_dim = side("transformer_blocks.0.attn.norm_q.weight", 0);
  c.num_heads = side("x_embedder.weight", 0) / c.head_dim;
  c.hidden = side("transformer_blocks.0.ff.linear_out.weight", 1);
  c.caption_width = side("context_embedder.weight", 1);
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  agree_on(json, "in_channels", c.in_channels, tensors);
  agree_on(json, "num_layers", c.num_double_blocks, tensors);
  agree_on(json, "num_single_layers", c.num_single_blocks, tensors);
  agree_on(json, "num_attention_heads", c.num_heads, tensors);
  agree_on(json, "attention_head_dim", c.head_dim, tensors);
  agree_on(json, "joint_attention_dim", c.caption_width, tensors);
  auto out_channels = c.in_channels;
  agree_on(json, "out_channels", out_channels, true);
  int64_t patch = 1, time_channels = 256;
  agree_on(json, "patch_size", patch, true);
  agree_on(json, "timestep_guidance_channels", time_channels, true);
  if (!tensors) {
    double ratio = 3;
    io::take(json, "mlp_ratio", ratio, "transformer");
    c.hidden = static_cast<int64_t>(ratio * static_cast<double>(c.width()));
    c.axes_dims = default_axes_of(c.head_dim);
  }
  io::take(json, "axes_dims_rope", c.axes_dims, "transformer");
  io::take(json, "rope_theta", c.rope_theta, "transformer");
}

/// FLUX.2 dev embeds its guidance, and no klein does.
void refuse_dev(const nlohmann::json* config_json, const io::Shapes& shapes) {
  bool embeds_guidance = shapes.contains("time_guidance_embed.guidance_embedder.linear_1.weight");
  if (config_json) io::take(*config_json, "guidance_embeds", embeds_guidance, "transformer");
  if (embeds_guidance)
    data_error("models",
               "the transformer embeds its guidance, as FLUX.2 dev does, whose text encoder is not known here; open a FLUX.2 klein");
}

void check_config(const Config& c) {
  for (auto size : {c.in_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width}) {
    if (size < 1 || size > kMostWidth)
      data_error("models", "the transformer's config.json or tensors give it a size of {}; sizes are from 1 to {}", size, kMostWidth);
  }
  for (auto count : {c.num_double_blocks, c.num_single_blocks}) {
    if (count < 1 || count > kMostBlocks)
      data_error("models", "the transformer's config.json or tensors give it {} blocks of a kind; 1 to {} were expected", count,
                 kMostBlocks);
  }
  auto is_even = [](int64_t dim) { return dim > 0 && dim % 2 == 0; };
  auto sum = std::accumulate(c.axes_dims.begin(), c.axes_dims.end(), int64_t{0});
  if (c.axes_dims.size() != 4 || sum != c.head_dim || !std::ranges::all_of(c.axes_dims, is_even))
    data_error("models", "axes_dims_rope {} must be four even numbers that sum to the head width {}", c.axes_dims, c.head_dim);
  if (!(c.rope_theta > 0)) data_error("models", "the transformer's config.json has rope_theta {}, which is above 0", c.rope_theta);
}

}  // namespace

Config klein_9b() { return {.num_double_blocks = 8, .num_single_blocks = 24, .num_heads = 32, .hidden = 12288, .caption_width = 12288}; }

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  Config c;
  bool tensors = !shapes.empty();
  if (!tensors && !config_json) data_error("models", "neither config.json nor weights to read the transformer's size from");
  refuse_dev(config_json, shapes);
  if (tensors) read_shapes(c, shapes);
  if (config_json) read_config(c, *config_json, tensors);
  check_config(c);
  return c;
}

}  // namespace burnish::models::flux2
