#include "models/families/fibo2/config.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/ranges.h>

#include <array>
#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::fibo2 {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::latent_channels, nullptr, 0, "in_channels"},
    {&Config::caption_width, "perceiver.layers.0.cross_attention.to_k.weight", 1, "cap_feat_dim"},
    {&Config::time_hidden, "t_embedder.mlp.0.weight", 0, nullptr},
};
constexpr Number<BlockSizes> kBlockNumbers[] = {
    {&BlockSizes::width, "x_embedder.weight", 0, "dim"},
    {&BlockSizes::head_dim, "layers.0.attention.norm_q.weight", 0, nullptr},
    {&BlockSizes::hidden, "layers.0.feed_forward.w1.weight", 0, nullptr},
    {&BlockSizes::num_layers, "layers.{}.attention.norm_q.weight", 0, "n_layers"},
    {&BlockSizes::num_refiner_layers, "noise_refiner.{}.attention.norm_q.weight", 0, "n_refiner_layers"},
};
constexpr Number<GistSizes> kGistNumbers[] = {
    {&GistSizes::num_layers, "perceiver.layers.{}.self_attention.norm_q.weight", 0, "perceiver_num_layers"},
    {&GistSizes::most, "perceiver.latent_queries", 0, "max_num_gist_tokens"},
};
/// Layers of the text encoder that are read side by side: for the gist, and by each block that reads (diffusers: pipeline_bria_fibo2.py).
constexpr size_t kMostReaders = 6, kTogether = 3;
constexpr std::array<std::array<int64_t, kTogether>, kMostReaders> kReadTogether{
    {{9, 20, 31}, {5, 16, 27}, {7, 18, 29}, {9, 20, 31}, {11, 22, 33}, {13, 24, 35}}};

/// Sets what only config.json says of gist tokens to the published shares of the most of them.
void share_gist(GistSizes& gist) {
  gist.least = std::max<int64_t>(gist.most / 2, 1);
  gist.step = std::max<int64_t>(gist.most / 8, 1);
}

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {32, 48, 48}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  read_tensors(c.blocks, kBlockNumbers, shapes);
  read_tensors(c.gist, kGistNumbers, shapes);
  c.latent_channels = io::side_of(shapes, "x_embedder.weight", 1, kWhat) / 4;
  c.blocks.axes_dims = default_axes_of(c.blocks.head_dim);
  share_gist(c.gist);
  c.blocks.reading.clear();
  for (int64_t i = 0; i < c.blocks.num_layers; ++i) {
    if (shapes.contains(fmt::format("layers.{}.cross_attention.to_k.weight", i))) c.blocks.reading.push_back(i);
  }
}

void read_blocks(BlockSizes& b, const nlohmann::json& json, bool tensors) {
  read_keys(b, kBlockNumbers, json, tensors);
  auto num_heads = b.head_dim > 0 ? b.num_heads() : 0;
  agree_on(json, "n_heads", num_heads, tensors);
  agree_on(json, "injection_layer_ids", b.reading, tensors);
  if (!tensors) {
    b.head_dim = num_heads > 0 ? b.width / num_heads : 0;
    b.hidden = b.width * 8 / 3 / 64 * 64;
    b.axes_dims = default_axes_of(b.head_dim);
  }
  io::take(json, "norm_eps", b.norm_eps, kWhat);
  io::take(json, "rope_theta", b.rope_theta, kWhat);
  io::take(json, "axes_dims", b.axes_dims, kWhat);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  read_blocks(c.blocks, json, tensors);
  read_keys(c.gist, kGistNumbers, json, tensors);
  agree_on_known(json, "patch_size", 2);
  agree_on_known(json, "t_scale", 1000.0);
  io::take(json, "min_num_gist_tokens", c.gist.least, kWhat);
  io::take(json, "gist_step", c.gist.step, kWhat);
  io::take(json, "gist_min_text_len", c.gist.least_text, kWhat);
  io::take(json, "gist_max_text_len", c.gist.most_text, kWhat);
}

void check_config(const Config& c) {
  const auto& b = c.blocks;
  const auto& gist = c.gist;
  check_sizes({c.latent_channels, c.caption_width, c.time_hidden, b.width, b.head_dim, b.hidden, gist.least, gist.most, gist.step,
               gist.least_text, gist.most_text});
  check_blocks({b.num_layers, b.num_refiner_layers, gist.num_layers});
  if (b.width % b.head_dim != 0) data_error("models", "the transformer's width {} does not divide into heads of {}", b.width, b.head_dim);
  check_axes("axes_dims", b.axes_dims, 3, b.head_dim);
  if (gist.least > gist.most || gist.least_text >= gist.most_text)
    data_error("models",
               "the transformer's config.json has {} to {} gist tokens for texts of {} to {} tokens (min_num_gist_tokens, "
               "max_num_gist_tokens, gist_min_text_len, gist_max_text_len), and the lesser numbers were expected first",
               gist.least, gist.most, gist.least_text, gist.most_text);
  const bool are_layers = b.reading.empty() || (b.reading.front() >= 0 && b.reading.back() < b.num_layers);
  if (!are_layers || !std::ranges::is_sorted(b.reading) || b.reading.size() >= kMostReaders || c.caption_width % kTogether != 0)
    data_error("models",
               "the transformer's layers {} read states of a text {} wide (injection_layer_ids, cap_feat_dim); at most {} of its {} layers "
               "and three states side by side were expected, as FIBO 2.0 has them",
               b.reading, c.caption_width, kMostReaders - 1, b.num_layers);
  if (!(b.rope_theta > 0 && b.norm_eps > 0))
    data_error("models", "the transformer's config.json has rope_theta {} and norm_eps {}, which are above 0 in every FIBO 2", b.rope_theta,
               b.norm_eps);
}

}  // namespace

at::Tensor GistSizes::count(const at::Tensor& num_text) const {
  const auto share = ((num_text - least_text) / static_cast<double>(most_text - least_text)).clamp(0, 1);
  const auto between = share * (most - least) + least;
  return ((between / static_cast<double>(step)).ceil() * step).clamp(least, most);
}

int64_t GistSizes::count(int64_t num_text) const { return count(at::scalar_tensor(num_text, at::kDouble)).item<int64_t>(); }

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

std::vector<int64_t> text_layers(const Config& config) {
  std::vector<int64_t> layers;
  for (size_t reader = 0; reader <= config.blocks.reading.size(); ++reader)
    layers.insert(layers.end(), kReadTogether.at(reader).begin(), kReadTogether.at(reader).end());
  std::ranges::sort(layers);
  layers.erase(std::ranges::unique(layers).begin(), layers.end());
  return layers;
}

std::vector<int64_t> read_together(const Config& config, size_t reader) {
  const auto layers = text_layers(config);
  std::vector<int64_t> places;
  for (const auto layer : kReadTogether.at(reader)) places.push_back(std::ranges::find(layers, layer) - layers.begin());
  return places;
}

}  // namespace burnish::models::fibo2
