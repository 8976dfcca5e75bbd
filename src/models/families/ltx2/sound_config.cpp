#include "models/families/ltx2/sound_config.h"

#include <nlohmann/json.hpp>
#include <string>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/files/config_values.h"

namespace burnish::models::ltx2 {

namespace {

constexpr const char* kSoundAutoencoder = "autoencoder of sound";

int64_t side_of_sound(const io::Shapes& shapes, const std::string& name, size_t dim) {
  return io::side_of(shapes, name, dim, kSoundAutoencoder);
}

void read_levels(SoundConfig& c, const io::Shapes& shapes, const std::string& levels) {
  c.channels.clear();
  const auto count = io::count_of(shapes, levels + ".{}.block.0.conv1.conv.weight");
  for (int64_t i = 0; i < count; ++i)
    c.channels.push_back(side_of_sound(shapes, levels + "." + std::to_string(i) + ".block.0.conv1.conv.weight", 0));
  c.num_resnets = io::count_of(shapes, levels + ".0.block.{}.conv1.conv.weight");
}

void read_sound_shapes(SoundConfig& c, const io::Shapes& shapes) {
  const std::string encoder_in = "encoder.conv_in.conv.weight", decoder_in = "decoder.conv_in.conv.weight";
  c.has_encoder = shapes.contains(encoder_in);
  c.has_decoder = shapes.contains(decoder_in);
  if (c.has_decoder) {
    read_levels(c, shapes, "decoder.up");
    c.num_resnets -= 1;
    c.latent_channels = side_of_sound(shapes, decoder_in, 1);
    c.num_sides = side_of_sound(shapes, "decoder.conv_out.conv.weight", 0);
  }
  if (c.has_encoder) {
    read_levels(c, shapes, "encoder.down");
    c.first_channels = side_of_sound(shapes, encoder_in, 0);
    c.num_sides = side_of_sound(shapes, encoder_in, 1);
    c.latent_channels = side_of_sound(shapes, "encoder.conv_out.conv.weight", 0) / 2;
  }
  if (c.channels.empty() || c.channels.size() > 8 || c.latent_channels < 1)
    data_error("models", "the autoencoder of sound has {} levels and {} latent channels; its file is damaged", c.channels.size(),
               c.latent_channels);
  // Each number of a latent has a mean of its own.
  c.bands.num_bands = side_of_sound(shapes, "latents_mean", 0) / c.latent_channels * c.step_of_levels();
}

/// Finds a value in settings that lie in each other, null where it is not there.
nlohmann::json inner(const nlohmann::json& settings, const std::vector<std::string>& path) {
  auto value = settings;
  for (const auto& key : path) {
    if (!value.is_object() || !value.contains(key)) return nullptr;
    value = nlohmann::json(value[key]);
  }
  return value;
}

/// Refuses what settings say that no published autoencoder of sound has.
template <class T>
void agree_on_sound(const nlohmann::json& settings, const char* key, const T& known) {
  auto value = known;
  io::take(settings, key, value, kSoundAutoencoder);
  if (value != known)
    data_error("models", "the settings of the autoencoder of sound have {} = {}; only {} is computed here, as every LTX-2 has it", key,
               nlohmann::json(value).dump(), nlohmann::json(known).dump());
}

void take_sound_settings(SoundConfig& c, const nlohmann::json& settings) {
  auto& bands = c.bands;
  const auto original = inner(settings, {"model", "params"}), layers = inner(original, {"ddconfig"});
  const auto windows = inner(settings, {"preprocessing", "stft"});
  io::take(settings, "sample_rate", bands.rate, kSoundAutoencoder);
  io::take(original, "sampling_rate", bands.rate, kSoundAutoencoder);
  io::take(settings, "mel_hop_length", bands.step, kSoundAutoencoder);
  io::take(windows, "hop_length", bands.step, kSoundAutoencoder);
  io::take(windows, "filter_length", bands.window, kSoundAutoencoder);
  for (const auto* of : {&settings, &layers}) {
    agree_on_sound<std::string>(*of, "causality_axis", "height");
    agree_on_sound<std::string>(*of, "norm_type", "pixel");
    agree_on_sound(*of, "double_z", true);
    agree_on_sound(*of, "mel_bins", bands.num_bands);
    agree_on_sound(*of, "attn_resolutions", std::vector<int64_t>{});
    for (const char* key : {"mid_block_add_attention"}) agree_on_sound(*of, key, false);
  }
}

void check_sound(const SoundConfig& c) {
  const auto& b = c.bands;
  check_sizes({b.rate, b.step, b.window, b.num_bands, c.num_sides, c.latent_channels, c.first_channels, c.num_resnets});
  for (auto channels : c.channels) check_sizes({channels});
  if (b.step > b.window || b.num_bands % c.step_of_levels() != 0)
    data_error("models",
               "the autoencoder of sound has windows of {} samples in steps of {}, with {} bands; a step is no longer than a window, and "
               "bands are a multiple of {}",
               b.window, b.step, b.num_bands, c.step_of_levels());
}

}  // namespace

SoundConfig sound_config(const nlohmann::json& settings, const io::Shapes& shapes) {
  SoundConfig c;
  if (!shapes.empty()) read_sound_shapes(c, shapes);
  take_sound_settings(c, settings);
  check_sound(c);
  return c;
}

}  // namespace burnish::models::ltx2
