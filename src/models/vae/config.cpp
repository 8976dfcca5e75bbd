#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::vae {

namespace {

constexpr const char* kWhat = "autoencoder";

int64_t dim_of(const io::Shapes& shapes, const std::string& name, size_t dim) { return io::side_of(shapes, name, dim, kWhat); }

/// Refuses a config.json that says otherwise than the shapes.
void check_kl_shapes(const KlConfig& c, const nlohmann::json& json, const io::Shapes& shapes) {
  io::agree(json, "in_channels", dim_of(shapes, "encoder.conv_in.weight", 1), kWhat);
  io::agree(json, "out_channels", dim_of(shapes, "decoder.conv_out.weight", 0), kWhat);
  io::agree(json, "latent_channels", c.latent_channels, kWhat);
  io::agree(json, "block_out_channels", c.block_out_channels, kWhat);
  io::agree(json, "decoder_block_out_channels", c.channels_of_decoder(), kWhat);
  io::agree(json, "layers_per_block", c.layers_per_block, kWhat);
  io::agree(json, "use_quant_conv", c.use_quant_conv, kWhat);
  io::agree(json, "use_post_quant_conv", c.use_post_quant_conv, kWhat);
}

/// Reads what no shape says.
void check_kl_values(const KlConfig& c) {
  io::check_above_0(c.scaling_factor, "scaling_factor", kWhat);
  for (const auto* levels : {&c.block_out_channels, &c.channels_of_decoder()}) {
    for (auto channels : *levels) {
      if (c.norm_num_groups < 1 || channels % c.norm_num_groups != 0)
        data_error("models", "the autoencoder's {} channels do not divide into {} norm groups", channels, c.norm_num_groups);
    }
  }
}

}  // namespace

/// The channels of levels that are called so, in the order of their numbers.
static std::vector<int64_t> channels_of(const io::Shapes& shapes, const std::string& levels) {
  std::vector<int64_t> channels;
  for (int i = 0;; ++i) {
    auto name = levels + std::to_string(i) + ".resnets.0.conv1.weight";
    if (!shapes.contains(name)) return channels;
    channels.push_back(dim_of(shapes, name, 0));
  }
}

KlConfig kl_config(const nlohmann::json& json, const io::Shapes& shapes, const KlLatents& without_config) {
  KlConfig c;
  c.scaling_factor = without_config.scale;
  c.block_out_channels = channels_of(shapes, "encoder.down_blocks.");
  if (c.block_out_channels.empty())
    data_error("models", "the autoencoder's weights lack the tensor 'encoder.down_blocks.0.resnets.0.conv1.weight'");
  // The decoder counts its levels from the coarsest.
  auto of_decoder = channels_of(shapes, "decoder.up_blocks.");
  std::ranges::reverse(of_decoder);
  if (of_decoder.size() == c.block_out_channels.size() && of_decoder != c.block_out_channels) c.decoder_channels = of_decoder;
  c.layers_per_block = io::count_of(shapes, "encoder.down_blocks.0.resnets.{}.conv1.weight");
  c.latent_channels = dim_of(shapes, "decoder.conv_in.weight", 1);
  c.use_quant_conv = shapes.contains("encoder.quant_conv.weight");
  c.use_post_quant_conv = shapes.contains("decoder.post_quant_conv.weight");
  for (const auto side : {c.block_out_channels.front(), c.channels_of_decoder().front()})
    c.norm_num_groups = std::gcd(c.norm_num_groups, side);
  io::take(json, "norm_num_groups", c.norm_num_groups, kWhat);
  io::take(json, "scaling_factor", c.scaling_factor, kWhat);
  c.shift_factor = c.latent_channels == 16 ? without_config.shift : 0.0;
  if (json.is_object()) c.shift_factor = 0.0;  // diffusers' default where config.json has none
  io::take(json, "shift_factor", c.shift_factor, kWhat);
  check_kl_shapes(c, json, shapes);
  check_kl_values(c);
  return c;
}

bool has_original_names(const io::TensorSource& source) { return source.contains("decoder.up.0.block.0.norm1.weight"); }

static size_t count_original_levels(const io::TensorSource& source) {
  size_t levels = 0;
  while (source.contains("encoder.down." + std::to_string(levels) + ".block.0.norm1.weight")) ++levels;
  return levels;
}

// Facts: black-forest-labs' flux/modules/autoencoder.py and diffusers' convert_ldm_vae_checkpoint.
io::KeyMap original_kl_keys(size_t num_levels, bool beside) {
  using Op = io::KeyRule::Op;
  std::vector<io::KeyRule> rules;
  auto add = [&](const std::string& theirs, const std::string& ours, Op op = Op::copy) {
    rules.push_back({theirs + ".weight", {ours + ".weight"}, op});
    rules.push_back({theirs + ".bias", {ours + ".bias"}, Op::copy});
  };
  auto add_resnet = [&](const std::string& theirs, const std::string& ours) {
    for (const char* part : {"norm1", "conv1", "norm2", "conv2"}) add(theirs + "." + part, ours + "." + part);
    add(theirs + ".nin_shortcut", ours + ".conv_shortcut");
  };
  for (const char* side : {"encoder", "decoder"}) {
    std::string s(side);
    add(s + ".conv_in", s + ".conv_in");
    add(s + ".norm_out", s + ".conv_norm_out");
    add(s + ".conv_out", s + ".conv_out");
    add_resnet(s + ".mid.block_1", s + ".mid_block.resnets.0");
    add_resnet(s + ".mid.block_2", s + ".mid_block.resnets.1");
    auto theirs = s + ".mid.attn_1.", ours = s + ".mid_block.attentions.0.";
    add(theirs + "norm", ours + "group_norm");
    add(theirs + "q", ours + "to_q", Op::reshape);
    add(theirs + "k", ours + "to_k", Op::reshape);
    add(theirs + "v", ours + "to_v", Op::reshape);
    add(theirs + "proj_out", ours + "to_out.0", Op::reshape);
  }
  for (size_t i = 0; i < num_levels; ++i) {
    auto number = std::to_string(i), reversed = std::to_string(num_levels - 1 - i);
    add_resnet("encoder.down." + number + ".block.{}", "encoder.down_blocks." + number + ".resnets.{}");
    add("encoder.down." + number + ".downsample.conv", "encoder.down_blocks." + number + ".downsamplers.0.conv");
    // The original counts decoder levels from the finest, diffusers from the coarsest.
    add_resnet("decoder.up." + number + ".block.{}", "decoder.up_blocks." + reversed + ".resnets.{}");
    add("decoder.up." + number + ".upsample.conv", "decoder.up_blocks." + reversed + ".upsamplers.0.conv");
  }
  if (beside) {
    add("quant_conv", "encoder.quant_conv");
    add("post_quant_conv", "decoder.post_quant_conv");
  }
  return io::KeyMap(rules);
}

io::KeyMap diffusers_kl_keys() { return kl_keys({}); }

io::KeyMap kl_keys(const io::TensorSource& source) {
  if (has_original_names(source)) return original_kl_keys(count_original_levels(source));
  std::vector<io::KeyRule> rules;
  for (const char* part : {".weight", ".bias"}) {
    rules.push_back({std::string("quant_conv") + part, {std::string("encoder.quant_conv") + part}});
    rules.push_back({std::string("post_quant_conv") + part, {std::string("decoder.post_quant_conv") + part}});
    // The attention of files from diffusers' first versions.
    for (const std::string side : {"encoder", "decoder"}) {
      auto block = side + ".mid_block.attentions.0.";
      if (!source.contains(block + "query.weight")) continue;
      for (const auto& [old, now] : {std::pair("query", "to_q"), {"key", "to_k"}, {"value", "to_v"}, {"proj_attn", "to_out.0"}})
        rules.push_back({block + old + part, {block + now + part}, io::KeyRule::Op::reshape});
    }
  }
  return io::KeyMap(rules);
}

}  // namespace burnish::models::vae
