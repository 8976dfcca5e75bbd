#include "models/families/boogu/config.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/files/config_values.h"

namespace burnish::models::boogu {

namespace {

constexpr const char* kWhat = "transformer";
constexpr const char *kHeadNorm = "single_stream_layers.0.attn.norm_q.weight", *kKeys = "single_stream_layers.0.attn.to_k.weight";
constexpr Number<Config> kNumbers[] = {
    {&Config::width, "x_embedder.weight", 0, "hidden_size"},
    {&Config::num_double, "double_stream_layers.{}.img_self_attn.norm_q.weight", 0, "num_double_stream_layers"},
    {&Config::num_single, "single_stream_layers.{}.attn.norm_q.weight", 0, nullptr},
    {&Config::num_refiners, "noise_refiner.{}.attn.norm_q.weight", 0, "num_refiner_layers"},
    {&Config::hidden, "single_stream_layers.0.feed_forward.linear_1.weight", 0, nullptr},
    {&Config::caption_width, "time_caption_embed.caption_embedder.1.weight", 1, nullptr},
    {&Config::most_references, "image_index_embedding", 0, nullptr},
};

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  c.latent_channels = io::side_of(shapes, "x_embedder.weight", 1, kWhat) / 4;
  const auto head_dim = io::side_of(shapes, kHeadNorm, 0, kWhat);
  check_sizes({head_dim});
  c.num_heads = c.width / head_dim;
  c.num_kv_heads = io::side_of(shapes, kKeys, 0, kWhat) / head_dim;
}

/// Reads what is between the layers of an MLP: a multiple of config.json's multiple_of, no less than 4 widths times its multiplier.
void read_hidden(Config& c, const nlohmann::json& json, bool tensors) {
  int64_t multiple = 256;
  double factor = 1;
  io::take(json, "multiple_of", multiple, kWhat);
  io::take(json, "ffn_dim_multiplier", factor, kWhat);
  check_sizes({multiple});
  const auto least = static_cast<int64_t>(factor * static_cast<double>(4 * c.width));
  const auto stated = (least + multiple - 1) / multiple * multiple;
  if (tensors && stated != c.hidden)
    data_error("models", "config.json makes an MLP {} wide of hidden_size, multiple_of and ffn_dim_multiplier, and the tensors have {}",
               stated, c.hidden);
  c.hidden = stated;
}

/// Refuses what the class can compute and no published model does.
void refuse_unpublished(Config& c, const nlohmann::json& json, bool tensors) {
  agree_on_known(json, "patch_size", int64_t{2});
  agree_on_known(json, "timestep_scale", 1000.0);
  agree_on_known(json, "out_channels", c.latent_channels);
  const auto part = [&](const char* key) { return json.contains(key) && json[key].is_object() ? json[key] : nlohmann::json::object(); };
  const auto texts = part("instruction_feature_configs");
  agree_on(texts, "instruction_feat_dim", c.caption_width, tensors);
  agree_on_known(texts, "num_instruction_feature_layers", int64_t{1});
  agree_on_known(part("prompt_tuning_configs"), "use_prompt_tuning", false);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on(json, "in_channels", c.latent_channels, tensors);
  agree_on(json, "num_attention_heads", c.num_heads, tensors);
  agree_on(json, "num_kv_heads", c.num_kv_heads, tensors);
  auto num_layers = c.num_double + c.num_single;
  agree_on(json, "num_layers", num_layers, tensors);
  c.num_single = num_layers - c.num_double;
  read_hidden(c, json, tensors);
  refuse_unpublished(c, json, tensors);
  agree_on_known(json, "norm_eps", Config::kNormEps);
  if (c.num_heads > 0) agree_on_known(json, "axes_dim_rope", c.axes_dims());
}

void check_config(const Config& c) {
  check_sizes({c.latent_channels, c.width, c.num_heads, c.num_kv_heads, c.hidden, c.caption_width, c.most_references});
  check_blocks({c.num_double, c.num_single, c.num_refiners});
  if (c.width % c.num_heads != 0 || c.num_heads % c.num_kv_heads != 0)
    data_error("models", "the transformer's config.json or tensors give it {} heads of queries and {} of keys, which do not divide {}",
               c.num_heads, c.num_kv_heads, c.width);
  check_axes("axes_dim_rope", c.axes_dims(), 3, c.head_dim());
}

}  // namespace

std::vector<int64_t> BlockSizes::axes_dims() const { return axes_in_proportion(head_dim(), {1, 1, 1}); }

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::boogu
