#include "models/families/ideogram4/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::ideogram4 {

namespace {

constexpr const char* kWhat = "transformer";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "input_proj.weight", 1, "in_channels"},
    {&Config::width, "input_proj.weight", 0, nullptr},
    {&Config::num_layers, "layers.{}.attention.norm_q.weight", 0, "num_layers"},
    {&Config::head_dim, "layers.0.attention.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "layers.0.feed_forward.w1.weight", 0, "intermediate_size"},
    {&Config::condition_width, "adaln_proj.weight", 0, "adaln_dim"},
    {&Config::caption_width, "llm_cond_proj.weight", 1, "llm_features_dim"},
};

/// Of the 128 pairs of a head of 256 Ideogram 4 has sections of 24, 20 and 20; other heads keep its proportions.
std::vector<int64_t> default_sections_of(int64_t head_dim) {
  auto plane = head_dim * 5 / 64;
  return {head_dim * 3 / 32, plane, plane};
}

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.sections = default_sections_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  auto num_heads = c.head_dim > 0 ? c.num_heads() : 0;
  agree_on(json, "num_attention_heads", num_heads, tensors);
  if (!tensors) {
    check_sizes({num_heads, c.head_dim});
    c.width = num_heads * c.head_dim;
    c.sections = default_sections_of(c.head_dim);
  }
  io::take(json, "norm_eps", c.norm_eps, kWhat);
  io::take(json, "rope_theta", c.rope_theta, kWhat);
  io::take(json, "mrope_section", c.sections, kWhat);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels, c.width, c.head_dim, c.hidden, c.condition_width, c.caption_width});
  if (c.num_layers < 1 || c.num_layers > kMostBlocks)
    data_error("models", "the transformer's config.json or tensors give it {} layers; 1 to {} were expected", c.num_layers, kMostBlocks);
  if (c.width % c.head_dim != 0 || c.head_dim % 2 != 0)
    data_error("models", "the transformer's width {} does not divide into heads of {}, an even number", c.width, c.head_dim);
  auto fits = [&](int64_t count) { return count >= 0 && 3 * count <= c.head_dim / 2; };
  if (c.sections.size() != 3 || !std::all_of(c.sections.begin() + 1, c.sections.end(), fits))
    data_error("models", "mrope_section {} must be three numbers, of which the last two are at most a third of the {} pairs of a head",
               c.sections, c.head_dim / 2);
  if (!(c.rope_theta > 0 && c.norm_eps > 0))
    data_error("models", "the transformer's config.json has rope_theta {} and norm_eps {}, which are above 0 in every Ideogram 4",
               c.rope_theta, c.norm_eps);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::ideogram4
