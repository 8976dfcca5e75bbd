#include "models/families/minimax_h3/sound_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/families/minimax_h3/autoencoder_config.h"
#include "models/files/config_values.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr const char* kSoundAutoencoder = "autoencoder of sound";

/// Reads sides of convolutions, whose weights files hold as they are, or as length and direction.
class Sides {
 public:
  explicit Sides(const io::Shapes& shapes)
      : shapes_(shapes), ending_(shapes.contains("decoder.conv_pre.weight_v") ? ".weight_v" : ".weight") {}
  bool has_weight_norm() const { return ending_ == ".weight_v"; }
  bool contains(const std::string& layer) const { return shapes_.contains(layer + ending_); }
  int64_t of(const std::string& layer, size_t dim) const { return io::side_of(shapes_, layer + ending_, dim, kSoundAutoencoder); }
  int64_t count(const std::string& layer) const { return io::count_of(shapes_, layer + ending_); }

 private:
  const io::Shapes& shapes_;
  std::string ending_;
};

void read_encoder(SoundConfig& c, const Sides& sides) {
  c.encoder.channels = sides.of("encoder.block.0", 0);
  c.encoder.steps.clear();
  // The kernel of a convolution that steps is twice as long as its step.
  for (int64_t i = 1; sides.contains("encoder.block." + std::to_string(i) + ".block.4"); ++i)
    c.encoder.steps.push_back(sides.of("encoder.block." + std::to_string(i) + ".block.4", 2) / 2);
}

void read_decoder(SoundConfig& c, const Sides& sides) {
  auto& d = c.decoder;
  d.channels = sides.of("decoder.conv_pre", 0);
  d.kernels.clear();
  d.steps.clear();
  for (int64_t i = 0; sides.contains("decoder.ups." + std::to_string(i) + ".0"); ++i) {
    d.kernels.push_back(sides.of("decoder.ups." + std::to_string(i) + ".0", 2));
    d.steps.push_back((d.kernels.back() + 1) / 2);  // as of the published ones
  }
  const auto num_blocks = sides.count("decoder.resblocks.{}.convs1.0") / std::max<int64_t>(1, std::ssize(d.kernels));
  d.block_kernels.clear();
  d.dilations.assign(static_cast<size_t>(num_blocks), {1, 3, 5});
  for (int64_t i = 0; i < num_blocks; ++i) d.block_kernels.push_back(sides.of("decoder.resblocks." + std::to_string(i) + ".convs1.0", 2));
}

void read_config(SoundConfig& c, const nlohmann::json& json) {
  io::take(json, "encoder_rates", c.encoder.steps, kSoundAutoencoder);
  io::take(json, "num_attention_heads", c.encoder.num_heads, kSoundAutoencoder);
  io::take(json, "decoder_rates", c.decoder.steps, kSoundAutoencoder);
  io::take(json, "decoder_kernel_sizes", c.decoder.kernels, kSoundAutoencoder);
  io::take(json, "resblock_kernel_sizes", c.decoder.block_kernels, kSoundAutoencoder);
  io::take(json, "resblock_dilation_sizes", c.decoder.dilations, kSoundAutoencoder);
  io::take(json, "sampling_rate", c.rate, kSoundAutoencoder);
  io::take(json, "latents_mean", c.latents_mean, kSoundAutoencoder);
  io::take(json, "latents_std", c.latents_std, kSoundAutoencoder);
}

void check_steps(const SoundConfig& c) {
  auto are_sizes = [](const std::vector<int64_t>& numbers) {
    return !numbers.empty() && std::ranges::all_of(numbers, [](int64_t n) { return n > 0 && n < 1000; });
  };
  const auto& d = c.decoder;
  bool fits = are_sizes(c.encoder.steps) && are_sizes(d.steps) && are_sizes(d.kernels) && are_sizes(d.block_kernels) &&
              d.steps.size() == d.kernels.size() && d.dilations.size() == d.block_kernels.size() &&
              std::ranges::all_of(d.dilations, are_sizes);
  for (size_t i = 0; fits && i < d.steps.size(); ++i) fits = d.kernels[i] >= d.steps[i] && (d.kernels[i] - d.steps[i]) % 2 == 0;
  if (!fits || product_of(c.encoder.steps) != product_of(d.steps))
    data_error("models",
               "the autoencoder of sound has {} encoder_rates, {} decoder_rates and {} decoder_kernel_sizes that do not fit each other; "
               "rates of encoder and decoder must have one product, and each kernel be longer than its rate by an even number",
               c.encoder.steps.size(), d.steps.size(), d.kernels.size());
}

void check_config(const SoundConfig& c) {
  check_sizes({c.width, c.latent_channels, c.rate, c.encoder.channels, c.encoder.num_heads, c.decoder.channels});
  check_steps(c);
  if (c.rate != kLatentsASecond * c.samples_per_latent())
    data_error("models",
               "the autoencoder of sound has a sampling_rate of {} and makes a latent of {} samples; {} latents a second were expected",
               c.rate, c.samples_per_latent(), kLatentsASecond);
  if (c.width % c.encoder.num_heads != 0 || (c.width / c.encoder.num_heads) % c.latent_channels != 0)
    data_error("models", "the autoencoder of sound is {} wide, which {} heads and {} latent_channels do not divide", c.width,
               c.encoder.num_heads, c.latent_channels);
  const auto num = static_cast<size_t>(c.latent_channels);
  if (c.latents_mean.size() != num || c.latents_std.size() != num ||
      !std::ranges::all_of(c.latents_std, [](double deviation) { return deviation > 0; }))
    data_error("models",
               "the autoencoder of sound has {} latents_mean and {} latents_std in its config.json, and {} of each, the latter above 0, "
               "were expected",
               c.latents_mean.size(), c.latents_std.size(), num);
}

}  // namespace

int64_t SoundConfig::samples_per_latent() const { return product_of(encoder.steps); }

SoundConfig sound_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  SoundConfig c;
  if (!shapes.empty()) {
    const Sides sides(shapes);
    c.has_weight_norm = sides.has_weight_norm();
    c.width = io::side_of(shapes, "pre_block.attn.qkv.weight", 1, kSoundAutoencoder);
    c.latent_channels = io::side_of(shapes, "mean_proj.weight", 0, kSoundAutoencoder);
    read_encoder(c, sides);
    read_decoder(c, sides);
  }
  if (!config_json.is_null()) read_config(c, config_json);
  check_config(c);
  return c;
}

}  // namespace burnish::models::minimax_h3
