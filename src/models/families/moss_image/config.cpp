#include "models/families/moss_image/config.h"

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::moss_image {

namespace {

constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "video_embedder.weight", 1, "latent_channels"},
    {&Config::width, "video_embedder.weight", 0, "dim"},
    {&Config::num_layers, "layers.{}.q_norm.weight", 0, "num_layers"},
    {&Config::head_dim, "layers.0.q_norm.weight", 0, nullptr},
    {&Config::hidden, "layers.0.proj.ffn_down.weight", 1, "ffn_dim"},
    {&Config::caption_width, "text_embedder.proj.weight", 1, "text_dim"},
    {&Config::num_text_layers, "text_embedder.blocks.{}.q_norm.weight", 0, nullptr},
    {&Config::time_channels, "time_embedding.0.weight", 1, "freq_dim"},
};

void read_shapes(Config& c, const io::Shapes& shapes) { read_tensors(c, kNumbers, shapes); }

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  auto num_heads = c.head_dim > 0 ? c.num_heads() : 0;
  agree_on(json, "num_heads", num_heads, tensors);
  if (!tensors) c.head_dim = num_heads > 0 ? c.width / num_heads : 0;
  io::take(json, "rope_base", c.rope_theta, "transformer");
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.width, c.head_dim, c.hidden, c.caption_width, c.time_channels});
  check_blocks({c.num_layers, c.num_text_layers});
  // Four axes of places have as many pairs of a head each, and sines as many numbers as cosines.
  if (c.head_dim % 8 != 0 || c.width % c.head_dim != 0 || c.time_channels % 2 != 0)
    data_error(
        "models",
        "the transformer has {} sinusoids of the time and heads {} wide in a width of {}; an even number and heads of a multiple of 8, "
        "which divide the width, were expected",
        c.time_channels, c.head_dim, c.width);
  if (!(c.rope_theta > 0))
    data_error("models", "the transformer's config.json has rope_base {}, which is above 0 in every MOSS-Image", c.rope_theta);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::moss_image
