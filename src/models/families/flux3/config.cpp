#include "models/families/flux3/config.h"

#include <nlohmann/json.hpp>

#include "models/blocks/mmdit.h"
#include "models/files/config_values.h"

namespace burnish::models::flux3 {

namespace {

constexpr const char* kTarget = "target_timestep_embedder.linear_1.weight";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "x_embedders.image.weight", 1, "in_channels"},
    {&Config::in_channels, nullptr, 0, "cond_in_channels"},
    {&Config::num_early_blocks, "txt_mode_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_joint_blocks, "single_transformer_blocks.{}.attn.norm_q.weight", 0, "num_single_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::head_dim, "single_transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "single_transformer_blocks.0.ff.linear_out.weight", 1, nullptr},
    {&Config::caption_width, "context_embedder.weight", 1, "joint_attention_dim"},
};

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = io::side_of(shapes, "x_embedders.image.weight", 0, "transformer") / c.head_dim;
  c.is_flow_map = shapes.contains(kTarget);
  c.axes_dims = even_axes(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "flow_map", c.is_flow_map, tensors);
  agree_on_known(json, "timestep_channels", mmdit::kTimeChannels);
  agree_on_known(json, "eps", 1e-6);
  read_even_axes(c, json, tensors);
}

/// FLUX.3's models of clips, sounds and actions have streams of them beside or in place of those of pictures.
void refuse_other_streams(const io::Shapes& shapes) {
  const std::string embedders = "x_embedders.";
  for (const auto& [name, shape] : shapes) {
    if (!name.starts_with(embedders)) continue;
    const auto stream = name.substr(embedders.size(), name.rfind('.') - embedders.size());
    if (stream != "image" && stream != "image_cond")
      data_error("models", "the transformer has a stream called {}, which FLUX.3's models of pictures have not; open a FLUX.3 klein",
                 stream);
  }
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.num_heads, c.head_dim, c.hidden, c.caption_width});
  check_blocks({c.num_early_blocks, c.num_joint_blocks});
  check_even_axes(c);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  refuse_other_streams(shapes);
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::flux3
