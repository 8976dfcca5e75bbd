#pragma once
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::vae {

/// How a latent's numbers stand, and what is known of them beside the files. Defaults are FLUX.2's.
struct PatchOrder {
  bool by_pixel = false;                          ///< the channels of one pixel after the other's, and not a channel's pixels
  std::vector<double> mean = {}, deviation = {};  ///< statistics in place of the files', in that order; none: the files'
};

/// Numbers of a PatchAutoencoder. Defaults are FLUX.2's.
struct PatchConfig {
  KlConfig kl{.latent_channels = 32, .use_quant_conv = true, .use_post_quant_conv = true};
  double norm_eps = 1e-4;  ///< added to the variance of latents
  PatchOrder order = {};

  /// Returns the numbers of a latent that the denoiser sees, a patch of 2 × 2 raw ones.
  int64_t channels() const { return 4 * kl.latent_channels; }
  /// Returns the pixels per such latent along a side.
  int64_t downsampling() const { return 2 * kl.downsampling(); }
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; FLUX.2's values then).
PatchConfig patch_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// Tells whether `source` has the statistics by which its latents are normalised.
bool has_patch_statistics(const io::TensorSource& source);
/// Returns the means of latents that `source` has.
at::Tensor mean_of_latents(const io::TensorSource& source);
/// Returns the weights of `source`, without a count of batches that no code reads.
io::TensorSource patch_tensors(const io::TensorSource& source);

/// The mean and the variance of latents, by channel: the running statistics of a batch norm.
class LatentStatistics : public nn::Module {
 public:
  LatentStatistics(int64_t channels, const at::TensorOptions& options);
  at::Tensor running_mean, running_var;  ///< [C]
};

/// A KL autoencoder whose latents are taken in patches of 2 × 2, the numbers of a patch as channels, and brought to mean 0 and deviation 1
/// (names of diffusers' AutoencoderKLFlux2).
class PatchAutoencoder : public nn::Module {
 public:
  PatchAutoencoder(const PatchConfig& config, const at::TensorOptions& options);
  /// Encodes image [B, 3, H, W] in [-1, 1], H and W multiples of downsampling() -> the moments of its latents [B, 4 C, h, w], normalised.
  Encoder::Moments encode(const at::Tensor& image_B3HW) const;
  /// Decodes latents as the denoiser sees them -> image [B, 3, H, W].
  at::Tensor decode(const at::Tensor& latents_BCHW) const;

 private:
  at::Tensor mean_C11() const;
  at::Tensor variance_C11() const;
  at::Tensor patches(const at::Tensor& x_BCHW) const;
  at::Tensor pixels(const at::Tensor& patches_BCHW) const;

  PatchConfig config_;
  Encoder encoder_;
  Decoder decoder_;
  LatentStatistics statistics_;
};

}  // namespace burnish::models::vae
