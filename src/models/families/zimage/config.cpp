#include "models/families/zimage/config.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::zimage {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::latent_channels, nullptr, 0, "in_channels"},
    {&Config::width, "all_x_embedder.2-1.weight", 0, "dim"},
    {&Config::num_layers, "layers.{}.attention.norm_q.weight", 0, "n_layers"},
    {&Config::num_refiner_layers, "noise_refiner.{}.attention.norm_q.weight", 0, "n_refiner_layers"},
    {&Config::head_dim, "layers.0.attention.norm_q.weight", 0, nullptr},
    {&Config::hidden, "layers.0.feed_forward.w1.weight", 0, nullptr},
    {&Config::caption_width, "cap_embedder.1.weight", 1, "cap_feat_dim"},
    {&Config::time_hidden, "t_embedder.mlp.0.weight", 0, nullptr},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {32, 48, 48}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.latent_channels = io::side_of(shapes, "all_x_embedder.2-1.weight", 1, kWhat) / 4;
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  auto num_heads = c.head_dim > 0 ? c.num_heads() : 0;
  agree_on(json, "n_heads", num_heads, tensors);
  if (!tensors) {
    c.head_dim = num_heads > 0 ? c.width / num_heads : 0;
    c.hidden = c.width * 8 / 3;
    c.axes_dims = default_axes_of(c.head_dim);
  }
  io::take(json, "norm_eps", c.norm_eps, kWhat);
  io::take(json, "rope_theta", c.rope_theta, kWhat);
  io::take(json, "t_scale", c.time_scale, kWhat);
  io::take(json, "axes_dims", c.axes_dims, kWhat);
  std::vector<int64_t> patch{2}, frames{1};
  io::take(json, "all_patch_size", patch, kWhat);
  io::take(json, "all_f_patch_size", frames, kWhat);
  int64_t picture_features = 0;
  if (patch != std::vector<int64_t>{2} || frames != std::vector<int64_t>{1} || io::take(json, "siglip_feat_dim", picture_features, kWhat))
    data_error("models",
               "the transformer's config.json asks for patches {} of {} frames, or for features of pictures (siglip_feat_dim); Z-Image and "
               "Z-Image-Turbo have patches of 2 and read texts alone",
               patch, frames);
}

void check_config(const Config& c) {
  check_sizes({c.latent_channels, c.width, c.head_dim, c.hidden, c.caption_width, c.time_hidden});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks || c.num_refiner_layers < 0 || c.num_refiner_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers and {} in each refiner; 1 to {} were expected",
               c.num_layers, c.num_refiner_layers, kMostBlocks);
  if (c.width % c.head_dim != 0) data_error("models", "the transformer's width {} does not divide into heads of {}", c.width, c.head_dim);
  check_axes("axes_dims", c.axes_dims, 3, c.head_dim);
  if (!(c.rope_theta > 0 && c.time_scale > 0 && c.norm_eps > 0))
    data_error("models", "the transformer's config.json has rope_theta {}, t_scale {} and norm_eps {}, which are above 0 in every Z-Image",
               c.rope_theta, c.time_scale, c.norm_eps);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::zimage
