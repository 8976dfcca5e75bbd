#include "models/families/longcat_video/config.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/input_error.h"
#include "models/files/config_values.h"

namespace burnish::models::longcat_video {

namespace {

constexpr const char *kPatchIn = "x_embedder.proj.weight", *kHeadNorm = "blocks.0.attn.q_norm.weight";
constexpr Number<Config> kNumbers[] = {
    {&Config::channels, kPatchIn, 1, "in_channels"},
    {&Config::width, kPatchIn, 0, "hidden_size"},
    {&Config::num_layers, "blocks.{}.attn.q_norm.weight", 0, "depth"},
    {&Config::hidden, "blocks.0.ffn.w1.weight", 0, nullptr},
    {&Config::caption_width, "y_embedder.y_proj.0.weight", 1, "caption_channels"},
    {&Config::time_channels, "t_embedder.mlp.0.weight", 1, "frequency_embedding_size"},
    {&Config::time_width, "t_embedder.mlp.2.weight", 0, "adaln_tembed_dim"},
};

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.num_heads = c.width / std::max<int64_t>(1, io::side_of(shapes, kHeadNorm, 0, "transformer"));
}

/// Returns the width between the layers of MLPs with gates, which have a third more layers for two thirds of the width, in whole 256.
int64_t hidden_of(int64_t width, double ratio) {
  constexpr int64_t kMultiple = 256;
  const auto two_thirds = 2 * static_cast<int64_t>(static_cast<double>(width) * ratio) / 3;
  return (two_thirds + kMultiple - 1) / kMultiple * kMultiple;
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "num_heads", c.num_heads, tensors);
  if (!tensors) {
    double ratio = 4;
    io::take(json, "mlp_ratio", ratio, "transformer");
    c.hidden = hidden_of(c.width, ratio);
  }
  agree_on_known(json, "out_channels", c.channels);
  agree_on_known(json, "patch_size", std::vector<int64_t>{1, 2, 2});
  agree_on_known(json, "text_tokens_zero_pad", true);
}

void check_config(const Config& c) {
  check_sizes({c.channels, c.width, c.num_heads, c.hidden, c.caption_width, c.time_channels, c.time_width});
  check_blocks({c.num_layers});
  if (c.width % c.num_heads != 0 || c.head_dim() % 8 != 0)
    data_error("models", "the transformer is {} wide and has {} heads; heads whose width is a multiple of 8 were expected", c.width,
               c.num_heads);
}

}  // namespace

std::vector<int64_t> Config::axes_dims() const {
  const auto of_side = head_dim() / 6 * 2;
  return {head_dim() - 2 * of_side, of_side, of_side};
}

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::longcat_video
