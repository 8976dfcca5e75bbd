#include "models/families/stable_diffusion/config.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/input_error.h"
#include "models/files/config_values.h"

namespace burnish::models::stable_diffusion {

bool any_below(const Shapes& shapes, const std::string& prefix) {
  auto it = shapes.lower_bound(prefix);
  return it != shapes.end() && it->first.starts_with(prefix);
}

namespace {

using nlohmann::json;
constexpr const char* kUNet = "UNet";

int64_t count_below(const Shapes& shapes, const std::string& prefix) { return io::count_of(shapes, prefix + "{}."); }

int64_t dim_of(const Shapes& shapes, const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kUNet); }

Config::Depths read_depths(const Shapes& shapes, const std::string& side) {
  Config::Depths depths;
  for (int64_t i = 0; i < count_below(shapes, side); ++i) {
    auto level = side + std::to_string(i);
    auto& row = depths.emplace_back();
    for (int64_t j = 0; j < count_below(shapes, level + ".resnets."); ++j)
      row.push_back(count_below(shapes, level + ".attentions." + std::to_string(j) + ".transformer_blocks."));
  }
  return depths;
}

/// The first transformer of the model, wherever it stands.
std::string some_attention(const Shapes& shapes) {
  for (const auto& [name, shape] : shapes) {
    auto at = name.find(".attentions.");
    if (at != name.npos) return name.substr(0, name.find('.', at + 12) + 1);
  }
  data_error("models", "the UNet has no attention: no tensor named down_blocks.….attentions.…; other UNets are not known here");
}

/// Returns what add_embedding reads: the pooled embedding and the sinusoids of six time ids; 0 without it.
int64_t added_width(const Shapes& shapes) {
  return shapes.contains("add_embedding.linear_1.weight") ? dim_of(shapes, "add_embedding.linear_1.weight", 1) : 0;
}

void read_shapes(Config& c, const Shapes& shapes) {
  c.in_channels = dim_of(shapes, "conv_in.weight", 1);
  c.out_channels = dim_of(shapes, "conv_out.weight", 0);
  c.down_depths = read_depths(shapes, "down_blocks.");
  c.up_depths = read_depths(shapes, "up_blocks.");
  c.mid_depth = count_below(shapes, "mid_block.attentions.0.transformer_blocks.");
  c.block_out_channels.clear();
  for (size_t i = 0; i < c.down_depths.size(); ++i)
    c.block_out_channels.push_back(dim_of(shapes, "down_blocks." + std::to_string(i) + ".resnets.0.conv1.weight", 0));
  if (c.block_out_channels.empty()) data_error("models", "the UNet has no levels: no tensor named down_blocks.0.resnets.0.conv1.weight");
  auto attention = some_attention(shapes);
  c.cross_attention_dim = dim_of(shapes, attention + "transformer_blocks.0.attn2.to_k.weight", 1);
  c.use_linear_projection = shapes.contains(attention + "proj_in.weight") && shapes.at(attention + "proj_in.weight").size() == 2;
  c.num_heads.clear();
  for (auto channels : c.block_out_channels) c.num_heads.push_back(c.use_linear_projection ? std::max<int64_t>(1, channels / 64) : 8);
  auto added = added_width(shapes);
  c.pooled_dim = added == 0 ? 0 : added - 6 * c.addition_time_embed_dim;
  c.num_groups = std::gcd(c.num_groups, c.block_out_channels.front());
}

/// A value of config.json; nothing when it is absent or null.
template <class T>
bool take(const json& config, const char* key, T& value) {
  return io::take(config, key, value, kUNet);
}

/// More layers or heads than that make no model, but would take hours to build.
constexpr int64_t kMostInALevel = 4096;

void check_count(int64_t count, const char* key) {
  if (count < 0 || count > kMostInALevel)
    data_error("models", "the UNet's config.json has {} = {}, and numbers from 0 to {} were expected", key, count, kMostInALevel);
}

/// One number for every level, or a list of them.
std::vector<int64_t> per_level(const json& config, const char* key, size_t num_levels, int64_t fallback) {
  std::vector<int64_t> values(num_levels, fallback);
  auto it = config.find(key);
  if (it == config.end() || it->is_null()) return values;
  if (it->is_number_integer()) values.assign(num_levels, it->get<int64_t>());
  else take(config, key, values);
  if (values.size() != num_levels)
    data_error("models", "the UNet's config.json has {} values for {}, and {} levels", values.size(), key, num_levels);
  for (auto value : values) check_count(value, key);
  return values;
}

/// Transformer blocks behind each residual block: one number a level or a list of them, 0 in levels without attention.
Config::Depths stated_depths(const json& config, const char* types_key, const char* depths_key, std::vector<int64_t> num_resnets,
                             const char* plain, const char* with_attention) {
  std::vector<std::string> types;
  if (!take(config, types_key, types)) data_error("models", "the UNet's config.json lacks {}", types_key);
  if (types.size() != num_resnets.size())
    data_error("models", "the UNet's config.json has {} {} and {} levels", types.size(), types_key, num_resnets.size());
  auto stated = config.contains(depths_key) && !config[depths_key].is_null() ? config[depths_key] : json(1);
  Config::Depths depths;
  for (size_t i = 0; i < types.size(); ++i) {
    auto count = static_cast<size_t>(std::max<int64_t>(num_resnets[i], 1));
    if (types[i] != plain && types[i] != with_attention)
      data_error("models", "the UNet's config.json has the block '{}'; {} and {} are known", types[i], plain, with_attention);
    auto value = stated.is_array() && i < stated.size() ? stated[i] : stated;
    std::vector<int64_t> row;
    if (value.is_number_integer()) row.assign(count, value.get<int64_t>());
    for (const auto& item : value.is_array() ? value : json::array()) row.push_back(item.is_number_integer() ? item.get<int64_t>() : 0);
    if (types[i] == plain) row.assign(count, 0);
    if (row.size() != count || *std::min_element(row.begin(), row.end()) < (types[i] == plain ? 0 : 1))
      data_error("models", "the UNet's config.json has {} = {}, which does not fit its blocks", depths_key, stated.dump());
    for (auto depth : row) check_count(depth, depths_key);
    depths.push_back(row);
  }
  return depths;
}

void read_depths_of_config(Config& c, const json& config, bool from_shapes) {
  auto resnets = per_level(config, "layers_per_block", num_levels(c), 2);
  auto down = stated_depths(config, "down_block_types", "transformer_layers_per_block", resnets, "DownBlock2D", "CrossAttnDownBlock2D");
  std::vector<int64_t> up_resnets(resnets.rbegin(), resnets.rend());
  for (auto& count : up_resnets) ++count;
  auto turned = config;
  if (auto& depths = turned["transformer_layers_per_block"]; depths.is_array()) {
    std::reverse(depths.begin(), depths.end());
    if (auto it = config.find("reverse_transformer_layers_per_block"); it != config.end() && !it->is_null()) depths = *it;
  }
  auto up = stated_depths(turned, "up_block_types", "transformer_layers_per_block", up_resnets, "UpBlock2D", "CrossAttnUpBlock2D");
  int64_t mid = 1;
  if (auto it = config.find("transformer_layers_per_block"); it != config.end() && !it->is_null()) {
    auto last = it->is_array() && !it->empty() ? it->back() : *it;
    if (last.is_array() && !last.empty()) last = last[0];
    if (!last.is_number_integer() || last.get<int64_t>() < 1)
      data_error("models", "the UNet's config.json has transformer_layers_per_block = {}, which is not understood here", it->dump());
    mid = last.get<int64_t>();
    check_count(mid, "transformer_layers_per_block");
  }
  if (from_shapes && (down != c.down_depths || up != c.up_depths || mid != c.mid_depth))
    data_error("models", "config.json says transformer blocks {} + {} + {} but the tensors say {} + {} + {}; the folder mixes two models",
               down, mid, up, c.down_depths, c.mid_depth, c.up_depths);
  c.down_depths = down;
  c.up_depths = up;
  c.mid_depth = mid;
}

/// Parts of diffusers' UNet2DConditionModel that other models use and these families do not.
void refuse_unknown_parts(const json& config) {
  static const std::vector<std::pair<const char*, json>> kKnown{
      {"mid_block_type", "UNetMidBlock2DCrossAttn"},
      {"resnet_time_scale_shift", "default"},
      {"class_embed_type", nullptr},
      {"encoder_hid_dim_type", nullptr},
      {"dual_cross_attention", false},
      {"only_cross_attention", false},
      {"time_embedding_type", "positional"},
      {"time_cond_proj_dim", nullptr},
      {"act_fn", "silu"},
      {"conv_in_kernel", 3},
      {"conv_out_kernel", 3},
      {"center_input_sample", false},
      {"downsample_padding", 1},
      {"mid_block_scale_factor", 1},
      {"time_embedding_act_fn", nullptr},
      {"timestep_post_act", nullptr},
      {"attention_type", "default"},
      {"cross_attention_norm", nullptr},
      {"resnet_skip_time_act", false},
      {"resnet_out_scale_factor", 1.0},
      {"num_class_embeds", nullptr},
      {"time_embedding_dim", nullptr},
      {"num_attention_heads", nullptr},
  };
  for (const auto& [key, value] : kKnown) {
    auto it = config.find(key);
    if (it != config.end() && !it->is_null() && *it != value)
      data_error("models", "the UNet's config.json has {} = {}; only {} is known here", key, it->dump(), value.dump());
  }
}

void read_config(Config& c, const json& config, const Shapes& shapes) {
  bool from_shapes = !shapes.empty();
  refuse_unknown_parts(config);
  agree_on(config, "in_channels", c.in_channels, from_shapes, kUNet);
  agree_on(config, "out_channels", c.out_channels, from_shapes, kUNet);
  agree_on(config, "block_out_channels", c.block_out_channels, from_shapes, kUNet);
  if (c.block_out_channels.empty()) data_error("models", "the UNet's config.json has no block_out_channels");
  read_depths_of_config(c, config, from_shapes);
  agree_on(config, "cross_attention_dim", c.cross_attention_dim, from_shapes, kUNet);
  if (!from_shapes) c.use_linear_projection = false;  // diffusers' default where config.json has none
  agree_on(config, "use_linear_projection", c.use_linear_projection, from_shapes, kUNet);
  c.num_heads = per_level(config, "attention_head_dim", num_levels(c), 8);
  take(config, "norm_num_groups", c.num_groups);
  take(config, "norm_eps", c.norm_eps);
  take(config, "flip_sin_to_cos", c.flip_sin_to_cos);
  take(config, "freq_shift", c.freq_shift);
  std::string added;
  take(config, "addition_embed_type", added);
  if (!added.empty() && added != "text_time")
    data_error("models", "the UNet's config.json has addition_embed_type = {}; only text_time is known here", added);
  auto in_width = added_width(shapes);
  agree_on(config, "projection_class_embeddings_input_dim", in_width, from_shapes, kUNet);
  take(config, "addition_time_embed_dim", c.addition_time_embed_dim);
  c.pooled_dim = in_width == 0 ? 0 : in_width - 6 * c.addition_time_embed_dim;
}

void check(const Config& c) {
  auto channels = c.block_out_channels;
  if (c.up_depths.size() != num_levels(c)) data_error("models", "the UNet has {} levels down and {} up", num_levels(c), c.up_depths.size());
  for (size_t i = 0; i < num_levels(c); ++i) {
    if (c.down_depths[i].empty() || c.up_depths[num_levels(c) - 1 - i].size() != c.down_depths[i].size() + 1)
      data_error("models", "level {} of the UNet has {} residual blocks down and {} up, which is one more in the UNets known here", i,
                 c.down_depths[i].size(), c.up_depths[num_levels(c) - 1 - i].size());
    if (c.num_heads[i] < 1 || channels[i] % c.num_heads[i] != 0)
      data_error("models", "level {} of the UNet has {} channels, which do not divide into {} heads", i, channels[i], c.num_heads[i]);
    if (c.num_groups < 1 || channels[i] % c.num_groups != 0)
      data_error("models", "level {} of the UNet has {} channels, which do not divide into {} norm groups", i, channels[i], c.num_groups);
  }
  if (channels.front() % 2 != 0) data_error("models", "the UNet's first level has {} channels, an odd number", channels.front());
  if (c.mid_depth < 1) data_error("models", "the UNet has no attention in its middle: mid_block.attentions.0 is missing");
  io::check_above_0(c.norm_eps, "norm_eps", kUNet);
  if (c.freq_shift != 0 && c.freq_shift != 1)  // half of the sinusoids would be a division by zero
    data_error("models", "the UNet's config.json has freq_shift = {}; 0 and 1 are known here", c.freq_shift);
  if (c.addition_time_embed_dim < 2 || c.addition_time_embed_dim % 2 != 0)
    data_error("models", "the UNet's config.json has addition_time_embed_dim = {}, and an even number above 0 was expected",
               c.addition_time_embed_dim);
  if (c.pooled_dim < 0)
    data_error("models", "the UNet's added embedding is too narrow for six time ids of {} sinusoids", c.addition_time_embed_dim);
}

}  // namespace

Config sd15() {
  Config c;
  c.block_out_channels = {320, 640, 1280, 1280};
  c.down_depths = {{1, 1}, {1, 1}, {1, 1}, {0, 0}};
  c.mid_depth = 1;
  c.up_depths = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  c.num_heads = {8, 8, 8, 8};
  c.cross_attention_dim = 768;
  c.use_linear_projection = false;
  c.pooled_dim = 0;
  return c;
}

Config detect(const json* config_json, const Shapes& shapes) {
  Config c;
  bool tensors = !shapes.empty();
  if (!tensors && !config_json) data_error("models", "neither config.json nor weights to read the UNet's size from");
  if (tensors) read_shapes(c, shapes);
  if (config_json) read_config(c, *config_json, shapes);
  check(c);
  return c;
}

}  // namespace burnish::models::stable_diffusion
