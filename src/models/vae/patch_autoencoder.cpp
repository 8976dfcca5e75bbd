#include "models/vae/patch_autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/pixel_shuffle.h>
#include <ATen/ops/pixel_unshuffle.h>
#include <ATen/ops/tensor.h>

#include "base/input_error.h"
#include "io/model_values.h"
#include "models/vae/tiles.h"

namespace burnish::models::vae {

namespace {

const std::string kMean = "bn.running_mean", kVariance = "bn.running_var";

at::Tensor of_channels(const at::Tensor& x_C) { return x_C.unsqueeze(-1).unsqueeze(-1); }

}  // namespace

PatchConfig patch_config(const nlohmann::json& config_json, const io::Shapes& shapes) {
  PatchConfig c{.kl = kl_config(config_json, shapes)};
  io::take(config_json, "batch_norm_eps", c.norm_eps, "autoencoder");
  io::check_above_0(c.norm_eps, "batch_norm_eps", "autoencoder");
  std::vector<int64_t> patch{2, 2};
  io::take(config_json, "patch_size", patch, "autoencoder");
  if (patch != std::vector<int64_t>{2, 2} || io::side_of(shapes, kMean, 0, "autoencoder") != c.channels())
    data_error("models", "the autoencoder's patches are not the 2 x 2 latents that were expected: it has statistics of {} channels, not {}",
               io::side_of(shapes, kMean, 0, "autoencoder"), c.channels());
  return c;
}

bool has_patch_statistics(const io::TensorSource& source) { return source.contains(kMean); }

at::Tensor mean_of_latents(const io::TensorSource& source) { return source.tensor(kMean); }

io::TensorSource patch_tensors(const io::TensorSource& source) { return source.without({"bn.num_batches_tracked"}); }

LatentStatistics::LatentStatistics(int64_t channels, const at::TensorOptions& options)
    : running_mean(at::empty({channels}, options)), running_var(at::empty({channels}, options)) {
  own("running_mean", running_mean);
  own("running_var", running_var);
}

PatchAutoencoder::PatchAutoencoder(const PatchConfig& c, const at::TensorOptions& options)
    : config_(c), encoder_(c.kl, options), decoder_(c.kl, options), statistics_(c.channels(), options) {
  own("encoder", encoder_);
  own("decoder", decoder_);
  own("bn", statistics_);
}

at::Tensor PatchAutoencoder::mean_C11() const {
  const auto& known = config_.order.mean;
  return of_channels(known.empty() ? statistics_.running_mean : at::tensor(known).to(statistics_.running_mean.options()));
}

at::Tensor PatchAutoencoder::variance_C11() const {
  const auto& known = config_.order.deviation;
  if (known.empty()) return of_channels(statistics_.running_var) + config_.norm_eps;
  return of_channels(at::tensor(known).square().to(statistics_.running_var.options()));
}

at::Tensor PatchAutoencoder::patches(const at::Tensor& x_BCHW) const {
  auto by_channel = at::pixel_unshuffle(x_BCHW, 2);
  return config_.order.by_pixel ? by_channel.unflatten(1, {-1, 4}).transpose(1, 2).flatten(1, 2) : by_channel;
}

at::Tensor PatchAutoencoder::pixels(const at::Tensor& patches_BCHW) const {
  auto by_channel = config_.order.by_pixel ? patches_BCHW.unflatten(1, {4, -1}).transpose(1, 2).flatten(1, 2) : patches_BCHW;
  return at::pixel_shuffle(by_channel, 2);
}

Encoder::Moments PatchAutoencoder::encode(const at::Tensor& image) const {
  auto size = config_.kl.tile_size;
  auto raw = Encoder::moments_of(
      in_tiles(image, size, size / config_.kl.downsampling(), [&](const at::Tensor& tile) { return encoder_.run(tile); }));
  auto variance = variance_C11();
  return {(patches(raw.mean_BCHW) - mean_C11()) / variance.sqrt(), patches(raw.logvar_BCHW) - variance.log()};
}

at::Tensor PatchAutoencoder::decode(const at::Tensor& latents) const {
  auto unpatched = pixels(latents * variance_C11().sqrt() + mean_C11());
  auto size = config_.kl.tile_size;
  return in_tiles(unpatched, size / config_.kl.downsampling(), size, [&](const at::Tensor& tile) { return decoder_.forward(tile); });
}

}  // namespace burnish::models::vae
