#include "models/families/ltx2/autoencoder_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/config_values.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kAutoencoder = "autoencoder";
constexpr int64_t kColoursOfPixels = 3;
const std::string kEncoderIn = "encoder.conv_in.conv.weight", kDecoderIn = "decoder.conv_in.conv.weight";

int64_t side_of_layer(const io::Shapes& shapes, const std::string& name, size_t dim) {
  return io::side_of(shapes, name, dim, kAutoencoder);
}

/// The step that makes `many` channels of `few`.
Step step_of(int64_t many, int64_t few, const std::string& layer) {
  for (const Step step : {Step{2, 1}, Step{1, 2}, Step{2, 2}}) {
    if (step.product() * few == many) return step;
  }
  data_error("models",
             "the layer '{}' of the autoencoder steps between {} and {} channels, and 2 (time), 4 (space) or 8 times were expected", layer,
             few, many);
}

void read_encoder(AutoencoderConfig& c, const io::Shapes& shapes) {
  auto& encoder = c.encoder;
  const auto patch = side_of_layer(shapes, kEncoderIn, 1) / kColoursOfPixels;
  c.patch = std::llround(std::sqrt(static_cast<double>(patch)));
  c.latent_channels = side_of_layer(shapes, "encoder.conv_out.conv.weight", 0) - 1;
  encoder.middle_channels = side_of_layer(shapes, "encoder.conv_out.conv.weight", 1);
  encoder.num_middle = io::count_of(shapes, "encoder.mid_block.resnets.{}.conv1.conv.weight");
  encoder.levels.clear();
  const auto num_levels = io::count_of(shapes, "encoder.down_blocks.{}.downsamplers.0.conv.conv.weight");
  for (int64_t i = 0; i < num_levels; ++i) {
    const auto level = "encoder.down_blocks." + std::to_string(i) + ".";
    encoder.levels.push_back({.channels = side_of_layer(shapes, level + "downsamplers.0.conv.conv.weight", 1),
                              .num_resnets = io::count_of(shapes, level + "resnets.{}.conv1.conv.weight")});
  }
  for (int64_t i = 0; i < num_levels; ++i) {
    const auto layer = "encoder.down_blocks." + std::to_string(i) + ".downsamplers.0.conv.conv";
    const auto next = i + 1 < num_levels ? encoder.levels[static_cast<size_t>(i + 1)].channels : encoder.middle_channels;
    encoder.levels[static_cast<size_t>(i)].step = step_of(next, side_of_layer(shapes, layer + ".weight", 0), layer);
  }
}

void read_decoder(AutoencoderConfig& c, const io::Shapes& shapes) {
  auto& decoder = c.decoder;
  c.latent_channels = side_of_layer(shapes, kDecoderIn, 1);
  c.patch = std::llround(std::sqrt(static_cast<double>(side_of_layer(shapes, "decoder.conv_out.conv.weight", 0)) / kColoursOfPixels));
  decoder.middle_channels = side_of_layer(shapes, kDecoderIn, 0);
  decoder.num_middle = io::count_of(shapes, "decoder.mid_block.resnets.{}.conv1.conv.weight");
  decoder.levels.clear();
  const auto num_levels = io::count_of(shapes, "decoder.up_blocks.{}.upsamplers.0.conv.conv.weight");
  for (int64_t i = 0; i < num_levels; ++i) {
    const auto level = "decoder.up_blocks." + std::to_string(i) + ".", layer = level + "upsamplers.0.conv.conv";
    const bool is_last = i + 1 == num_levels;
    const auto channels = is_last
                              ? side_of_layer(shapes, "decoder.conv_out.conv.weight", 1)
                              : side_of_layer(shapes, "decoder.up_blocks." + std::to_string(i + 1) + ".upsamplers.0.conv.conv.weight", 1);
    decoder.levels.push_back({.channels = channels,
                              .num_resnets = io::count_of(shapes, level + "resnets.{}.conv1.conv.weight"),
                              .step = step_of(side_of_layer(shapes, layer + ".weight", 0), channels, layer)});
  }
  // No tensor tells what a step adds and what is seen beyond the edges; these are as 2.0 has them, or 2.3.
  const bool is_of_20 = num_levels == 3 && std::ranges::all_of(decoder.levels, [](const Level& l) { return l.step == Step{2, 2}; });
  for (auto& level : decoder.levels) level.adds_input = is_of_20;
  decoder.edges = is_of_20 ? Edges::mirrored : Edges::zeros;
}

void take_edges(const nlohmann::json& settings, const char* key, Edges& edges) {
  std::string word;
  if (!io::take(settings, key, word, kAutoencoder)) return;
  if (word != "zeros" && word != "reflect")
    data_error("models", "the settings of the autoencoder have {} '{}', and zeros or reflect was expected", key, word);
  edges = word == "zeros" ? Edges::zeros : Edges::mirrored;
}

/// Refuses what settings say that no published autoencoder has.
template <class T>
void agree_on_only(const nlohmann::json& settings, const char* key, const T& known) {
  auto value = known;
  io::take(settings, key, value, kAutoencoder);
  if (value != known)
    data_error("models", "the settings of the autoencoder have {} = {}; only {} is computed here, as every LTX-2 has it", key,
               nlohmann::json(value).dump(), nlohmann::json(known).dump());
}

/// Sets from which steps of the decoder, in the order of their running, the input is added.
void set_added(HalfConfig& decoder, const std::vector<bool>& adds) {
  if (adds.size() != decoder.levels.size())
    data_error("models", "the settings of the autoencoder speak of {} steps of the decoder, and its tensors have {}", adds.size(),
               decoder.levels.size());
  for (size_t i = 0; i < adds.size(); ++i) decoder.levels[i].adds_input = adds[i];
}

/// The blocks of original settings, each a name with its numbers, from pixels on.
std::vector<bool> added_of_blocks(const nlohmann::json& blocks) {
  std::vector<bool> adds;
  for (const auto& block : blocks) {
    const bool is_named = block.is_array() && block.size() == 2 && block[0].is_string();
    if (!is_named || !block[0].get<std::string>().starts_with("compress_")) continue;
    bool is_added = false;
    io::take(block[1], "residual", is_added, kAutoencoder);
    adds.push_back(is_added);
  }
  std::reverse(adds.begin(), adds.end());
  return adds;
}

/// diffusers' lists of the decoder are in the order from pixels to latents, as the original ones.
std::vector<bool> added_of_list(const nlohmann::json& value, size_t num_levels) {
  if (value.is_boolean()) return std::vector<bool>(num_levels, value.get<bool>());
  std::vector<bool> adds;
  io::take(nlohmann::json{{"upsample_residual", value}}, "upsample_residual", adds, kAutoencoder);
  std::reverse(adds.begin(), adds.end());
  return adds;
}

void take_settings(AutoencoderConfig& c, const nlohmann::json& settings) {
  if (!settings.is_object()) return;
  for (const char* key : {"spatial_padding_mode", "encoder_spatial_padding_mode"}) take_edges(settings, key, c.encoder.edges);
  for (const char* key : {"spatial_padding_mode", "decoder_spatial_padding_mode"}) take_edges(settings, key, c.decoder.edges);
  io::take(settings, "encoder_causal", c.encoder.is_causal, kAutoencoder);
  for (const char* key : {"causal_decoder", "decoder_causal"}) io::take(settings, key, c.decoder.is_causal, kAutoencoder);
  agree_on_only(settings, "timestep_conditioning", false);
  agree_on_only<int64_t>(settings, "patch_size_t", 1);
  agree_on_only<std::string>(settings, "norm_layer", "pixel_norm");
  agree_on_only<std::string>(settings, "latent_log_var", "uniform");
  agree_on_only<double>(settings, "scaling_factor", 1);
  if (!c.decoder.is_there) return;
  if (settings.contains("decoder_blocks")) set_added(c.decoder, added_of_blocks(settings["decoder_blocks"]));
  if (settings.contains("upsample_residual")) set_added(c.decoder, added_of_list(settings["upsample_residual"], c.decoder.levels.size()));
}

Step all_steps(const HalfConfig& half) {
  Step all;
  for (const auto& level : half.levels) all = {all.in_time * level.step.in_time, all.in_space * level.step.in_space};
  return all;
}
Step all_steps(const AutoencoderConfig& c) { return all_steps(c.encoder.is_there ? c.encoder : c.decoder); }

void check_half(const HalfConfig& half, const char* name) {
  check_sizes({half.middle_channels});
  for (const auto& level : half.levels) check_sizes({level.channels});
  if (half.levels.empty() || half.num_middle == 0)
    data_error("models", "the {} of the autoencoder has {} steps between levels and {} blocks in its middle, and one of each is the least",
               name, half.levels.size(), half.num_middle);
}

void check_halves(const AutoencoderConfig& c) {
  check_sizes({c.latent_channels, c.patch});
  if (c.encoder.is_there) check_half(c.encoder, "encoder");
  if (c.decoder.is_there) check_half(c.decoder, "decoder");
  if (c.encoder.is_there && c.decoder.is_there && all_steps(c.encoder) != all_steps(c.decoder))
    data_error("models", "encoder and decoder of the autoencoder are of two models: they step by {} and {} frames, {} and {} pixels",
               all_steps(c.encoder).in_time, all_steps(c.decoder).in_time, all_steps(c.encoder).in_space, all_steps(c.decoder).in_space);
  auto input = c.decoder.middle_channels;
  for (const auto& level : c.decoder.levels) {
    if (c.decoder.is_there && level.adds_input &&
        (input % level.step.product() != 0 || level.channels % (input / level.step.product()) != 0))
      data_error("models", "{} channels of the autoencoder cannot be added to the {} that a step of {} places makes of them", input,
                 level.channels, level.step.product());
    input = level.channels;
  }
}

}  // namespace

int64_t AutoencoderConfig::downsampling() const { return patch * all_steps(*this).in_space; }
int64_t AutoencoderConfig::frames_per_latent() const { return all_steps(*this).in_time; }

AutoencoderConfig autoencoder_config_20() {
  AutoencoderConfig c;
  c.encoder.middle_channels = 2048;
  c.encoder.levels[2].num_resnets = 6;
  c.decoder.num_middle = 5;
  c.decoder.edges = Edges::mirrored;
  c.decoder.levels = {{512, 5, {2, 2}}, {256, 5, {2, 2}}, {128, 5, {2, 2}}};
  return c;
}

AutoencoderConfig autoencoder_config(const nlohmann::json& settings, const io::Shapes& shapes) {
  AutoencoderConfig c;
  if (!shapes.empty()) {
    c.encoder.is_there = shapes.contains(kEncoderIn);
    c.decoder.is_there = shapes.contains(kDecoderIn);
    if (c.decoder.is_there) read_decoder(c, shapes);
    if (c.encoder.is_there) read_encoder(c, shapes);
  }
  take_settings(c, settings);
  check_halves(c);
  return c;
}

}  // namespace burnish::models::ltx2
