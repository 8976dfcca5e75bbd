#include "models/families/minimax_h3/autoencoder_config.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/families/minimax_h3/rows_of_heads.h"
#include "models/files/config_values.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr const char* kAutoencoder = "autoencoder";
const std::string kOriginalDecoder = "decoder.x_embedder.weight", kDecoderBlock = "decoder.transformer_blocks.0.";
using Op = io::KeyRule::Op;

std::string level_of(size_t number) { return "encoder.down_blocks." + std::to_string(number) + "."; }

void read_shapes(AutoencoderConfig& c, const io::Shapes& shapes) {
  auto side = [&](const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kAutoencoder); };
  c.latent_channels = side("decoder.proj_in.weight", 1);
  c.encoder.block_out_channels.clear();
  for (size_t i = 0; shapes.contains(level_of(i) + "resnets.0.conv1.weight"); ++i)
    c.encoder.block_out_channels.push_back(side(level_of(i) + "resnets.0.conv1.weight", 0));
  c.encoder.layers_per_block = io::count_of(shapes, level_of(0) + "resnets.{}.conv1.weight");
  auto& d = c.decoder;
  d.num_layers = io::count_of(shapes, "decoder.transformer_blocks.{}.norm1.weight");
  d.num_registers = side("decoder.register_tokens", 1);
  d.hidden = side(kDecoderBlock + "ff.net.2.weight", 1);
  // No tensor tells how wide a head is, or a group of channels; they are as the published ones.
  d.num_heads = std::max<int64_t>(1, side("decoder.proj_in.weight", 0) / d.head_dim);
  if (!c.encoder.block_out_channels.empty()) c.encoder.num_groups = std::max<int64_t>(1, c.encoder.block_out_channels[0] / 4);
}

void read_config(AutoencoderConfig& c, const nlohmann::json& json) {
  io::take(json, "spatial_downsample_factors", c.encoder.steps_in_space, kAutoencoder);
  io::take(json, "temporal_downsample_factors", c.encoder.steps_in_time, kAutoencoder);
  io::take(json, "norm_num_groups", c.encoder.num_groups, kAutoencoder);
  io::take(json, "norm_eps", c.encoder.eps, kAutoencoder);
  auto& d = c.decoder;
  io::take(json, "decoder_num_attention_heads", d.num_heads, kAutoencoder);
  io::take(json, "decoder_attention_head_dim", d.head_dim, kAutoencoder);
  io::take(json, "decoder_rope_theta", d.rope_theta, kAutoencoder);
  io::take(json, "decoder_rope_dim_ratio", d.rotated_share, kAutoencoder);
  io::take(json, "decoder_norm_eps", d.eps, kAutoencoder);
  io::take(json, "clip_length", c.clip_length, kAutoencoder);
  io::take(json, "token_drop", c.num_dropped, kAutoencoder);
  io::take(json, "latents_mean", c.latents_mean, kAutoencoder);
  io::take(json, "latents_std", c.latents_std, kAutoencoder);
  std::string padding = "reflect";
  io::take(json, "spatial_padding_mode", padding, kAutoencoder);
  if (padding != "reflect")
    data_error("models", "the autoencoder's config.json has the spatial_padding_mode {}, and every MiniMax-H3 has reflect", padding);
}

void check_encoder(const AutoencoderConfig& c) {
  const auto num_levels = c.encoder.block_out_channels.size();
  auto at_least_one = [](const std::vector<int64_t>& steps) {
    return std::ranges::all_of(steps, [](int64_t n) { return n == 1 || n == 2; });
  };
  if (num_levels == 0 || c.encoder.steps_in_space.size() != num_levels || c.encoder.steps_in_time.size() != num_levels ||
      !at_least_one(c.encoder.steps_in_space) || !at_least_one(c.encoder.steps_in_time))
    data_error("models",
               "the autoencoder has {} levels, with {} spatial_downsample_factors and {} temporal_downsample_factors; one of each, 1 or 2, "
               "was expected for every level",
               num_levels, c.encoder.steps_in_space.size(), c.encoder.steps_in_time.size());
  check_sizes({c.latent_channels, c.encoder.num_groups, c.encoder.layers_per_block});
  for (auto channels : c.encoder.block_out_channels) {
    check_sizes({channels});
    if (channels % c.encoder.num_groups != 0)
      data_error("models", "{} channels of the autoencoder do not divide into its norm_num_groups {}", channels, c.encoder.num_groups);
  }
}

void check_decoder(const AutoencoderConfig& c) {
  const auto& d = c.decoder;
  check_sizes({d.num_heads, d.head_dim, d.hidden});
  const auto rotated = static_cast<int64_t>(static_cast<double>(d.head_dim) * d.rotated_share);
  if (!(d.rotated_share > 0 && d.rotated_share <= 1) || rotated % 6 != 0 || rotated == 0)
    data_error("models", "decoder_rope_dim_ratio {} of a head of {} is no multiple of 6 numbers", d.rotated_share, d.head_dim);
  const bool has_clips = c.clip_length > 1 && c.num_dropped > 0 && c.num_dropped < c.latents_per_clip();
  if (!has_clips)
    data_error("models", "the autoencoder's config.json has clip_length {} and token_drop {}, which are 17 and 3 in every MiniMax-H3",
               c.clip_length, c.num_dropped);
  const auto num = static_cast<size_t>(c.latent_channels);
  const bool has_statistics = c.latents_mean.size() == num && c.latents_std.size() == num &&
                              std::ranges::all_of(c.latents_std, [](double deviation) { return deviation > 0; });
  if (!has_statistics)
    data_error("models",
               "the autoencoder's config.json has {} latents_mean and {} latents_std, and {} of each, the latter above 0, were "
               "expected",
               c.latents_mean.size(), c.latents_std.size(), num);
}

/// Rules from original names, as they come together.
struct Rules {
  std::vector<io::KeyRule> all = {};
  void add(const std::string& theirs, const std::vector<std::string>& ours, Op op = Op::copy) {
    for (const std::string part : {".weight", ".bias"}) {
      auto names = ours;
      for (auto& name : names) name += part;
      all.push_back({theirs + part, names, op});
    }
  }
};

}  // namespace

int64_t product_of(const std::vector<int64_t>& steps) {
  return std::accumulate(steps.begin(), steps.end(), int64_t{1}, std::multiplies<>());
}

int64_t AutoencoderConfig::downsampling() const { return product_of(encoder.steps_in_space); }
int64_t AutoencoderConfig::frames_per_latent() const { return product_of(encoder.steps_in_time); }

AutoencoderConfig autoencoder_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  AutoencoderConfig c;
  if (!shapes.empty()) read_shapes(c, shapes);
  if (!config_json.is_null()) read_config(c, config_json);
  check_encoder(c);
  check_decoder(c);
  return c;
}

io::TensorSource autoencoder_tensors(const io::TensorSource& source) {
  if (!source.contains(kOriginalDecoder)) return source;
  const auto run = source.without({"decoder.mask_token", "latents_mean", "latents_std"});
  return with_rows_by_part(run, {".attn.to_qkv.weight", ".attn.to_qkv.bias"}, DecoderConfig().head_dim);
}

io::KeyMap autoencoder_keys(const io::TensorSource& source) {
  if (!source.contains(kOriginalDecoder)) return {};
  Rules rules;
  for (const char* part : {"norm1", "conv1", "norm2", "conv2"})
    rules.add(std::string("encoder.down.{}.block.{}.") + part, {std::string("encoder.down_blocks.{}.resnets.{}.") + part});
  rules.add("encoder.down.{}.block.{}.nin_shortcut", {"encoder.down_blocks.{}.resnets.{}.conv_shortcut"});
  rules.add("encoder.down.{}.downsample.conv", {"encoder.down_blocks.{}.downsamplers.0.conv"});
  rules.add("decoder.x_embedder", {"decoder.proj_in"});
  const std::string block = "decoder.transformer_blocks.{}.";
  rules.add(block + "attn.to_qkv", {block + "attn.to_q", block + "attn.to_k", block + "attn.to_v"}, Op::stack_rows);
  rules.add(block + "attn.to_out", {block + "attn.to_out.0"});
  rules.add(block + "ff.w1", {block + "ff.net.0.proj"}, Op::swap_halves);
  rules.add(block + "ff.w2", {block + "ff.net.2"});
  return io::KeyMap(rules.all);
}

}  // namespace burnish::models::minimax_h3
