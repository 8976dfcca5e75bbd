#include "models/families/krea2/config.h"

#include <nlohmann/json.hpp>

#include "models/blocks/mmdit.h"
#include "models/files/config_values.h"

namespace burnish::models::krea2 {

namespace {

constexpr const char* kWhat = "transformer";
const std::string kBlock = "transformer_blocks.0.", kFusion = "text_fusion.layerwise_blocks.0.";
constexpr Number<Config> kNumbers[] = {
    {&Config::in_channels, "img_in.weight", 1, "in_channels"},
    {&Config::num_layers, "transformer_blocks.{}.attn.norm_q.weight", 0, "num_layers"},
    {&Config::num_heads, nullptr, 0, "num_attention_heads"},
    {&Config::num_kv_heads, nullptr, 0, "num_key_value_heads"},
    {&Config::head_dim, "transformer_blocks.0.attn.norm_q.weight", 0, "attention_head_dim"},
    {&Config::hidden, "transformer_blocks.0.ff.up.weight", 0, "intermediate_size"},
    {&Config::caption_width, "txt_in.norm.weight", 0, "text_hidden_dim"},
    {&Config::num_caption_layers, "text_fusion.projector.weight", 1, "num_text_layers"},
    {&Config::num_caption_heads, nullptr, 0, "text_num_attention_heads"},
    {&Config::num_caption_kv_heads, nullptr, 0, "text_num_key_value_heads"},
    {&Config::caption_hidden, "text_fusion.layerwise_blocks.0.ff.up.weight", 0, "text_intermediate_size"},
    {&Config::num_layerwise_blocks, "text_fusion.layerwise_blocks.{}.attn.norm_q.weight", 0, "num_layerwise_text_blocks"},
    {&Config::num_refiner_blocks, "text_fusion.refiner_blocks.{}.attn.norm_q.weight", 0, "num_refiner_text_blocks"},
};

std::vector<int64_t> default_axes_of(int64_t head_dim) { return axes_in_proportion(head_dim, {32, 48, 48}); }

void read_shapes(Config& c, const io::Shapes& shapes) {
  read_tensors(c, kNumbers, shapes);
  auto heads_of = [&](const std::string& layer, int64_t head_dim) { return io::side_of(shapes, layer + ".weight", 0, kWhat) / head_dim; };
  c.num_heads = heads_of(kBlock + "attn.to_q", c.head_dim);
  c.num_kv_heads = heads_of(kBlock + "attn.to_k", c.head_dim);
  const auto caption_dim = io::side_of(shapes, kFusion + "attn.norm_q.weight", 0, kWhat);
  c.num_caption_heads = heads_of(kFusion + "attn.to_q", caption_dim);
  c.num_caption_kv_heads = heads_of(kFusion + "attn.to_k", caption_dim);
  c.axes_dims = default_axes_of(c.head_dim);
}

void read_config(Config& c, const nlohmann::json& json, bool tensors) {
  read_keys(c, kNumbers, json, tensors);
  agree_on_known(json, "timestep_embed_dim", mmdit::kTimeChannels);
  if (!tensors) c.axes_dims = default_axes_of(c.head_dim);
  io::take(json, "axes_dims_rope", c.axes_dims, kWhat);
  io::take(json, "norm_eps", c.norm_eps, kWhat);
  io::take(json, "rope_theta", c.rope_theta, kWhat);
}

void check_heads(const Stack& stack) {
  check_sizes({stack.width, stack.num_heads, stack.num_kv_heads, stack.hidden});
  if (stack.width % stack.num_heads == 0 && stack.num_heads % stack.num_kv_heads == 0) return;
  data_error("models",
             "the transformer's config.json or tensors give a block of width {} {} heads of queries and {} of keys, which do not divide it",
             stack.width, stack.num_heads, stack.num_kv_heads);
}

void check_config(const Config& c) {
  check_sizes({c.in_channels / 4, c.head_dim, c.num_caption_layers});
  for (auto count : {c.num_layers, c.num_layerwise_blocks, c.num_refiner_blocks}) {
    if (count < 1 || count > kMostBlocks)
      data_error("models",
                 "the transformer's config.json or tensors give it {} layers, and {} and {} in the fusion of texts; 1 to {} were "
                 "expected",
                 c.num_layers, c.num_layerwise_blocks, c.num_refiner_blocks, kMostBlocks);
  }
  check_heads(c.main());
  check_heads(c.fusion());
  check_axes("axes_dims_rope", c.axes_dims, 3, c.head_dim);
  if (!(c.rope_theta > 0 && c.norm_eps > 0))
    data_error("models", "the transformer's config.json has rope_theta {} and norm_eps {}, which are above 0 in every Krea 2", c.rope_theta,
               c.norm_eps);
}

}  // namespace

Config detect(const nlohmann::json* config_json, const io::Shapes& shapes) {
  return detected(config_json, shapes, read_shapes, read_config, check_config);
}

}  // namespace burnish::models::krea2
