#pragma once
#include "models/vae/autoencoder_kl.h"

namespace burnish::models::vae {

/// Numbers of a causal autoencoder. Defaults are those of Qwen-Image and of Wan 2.1, whose files hold neither mean nor deviation.
struct CausalConfig {
  int64_t first_channels = 96;
  std::vector<int64_t> block_out_channels = {96, 192, 384, 384};
  int64_t layers_per_block = 2;
  int64_t latent_channels = 16;
  std::vector<double> latents_mean = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                      0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
  std::vector<double> latents_std = {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
                                     3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160};
  int64_t tile_size = 0;  ///< see KlConfig

  /// Pixels per latent along a side.
  int64_t downsampling() const { return int64_t{1} << (block_out_channels.size() - 1); }
};

/// Reads sizes from shapes (our names), and mean and deviation from config.json (null for none).
CausalConfig causal_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// The weights of `source` that meet a picture: not those that join frames in time alone.
io::TensorSource causal_tensors(const io::TensorSource& source);

/// Rules between the names of `source` (original or diffusers') and ours, which are diffusers' with kernels of one slice in time.
io::KeyMap causal_keys(const io::TensorSource& source);
/// Those of diffusers, and the original ones of an autoencoder of this size.
io::KeyMap diffusers_causal_keys();
io::KeyMap original_causal_keys(const CausalConfig& config);

/// The autoencoder of Qwen-Image and Wan 2.1 for pictures (names of diffusers' AutoencoderKLQwenImage). Its convolutions in time are
/// causal and begin with zeros, so of a clip of one frame their last slice alone has a part in it, and it is a network of two dimensions.
class CausalAutoencoder : public nn::Module {
 public:
  CausalAutoencoder(const CausalConfig& config, const at::TensorOptions& options);
  ~CausalAutoencoder() override;
  /// image [B, 3, H, W] in [-1, 1], H and W multiples of downsampling() -> the moments of its latents, brought to mean 0 and deviation 1.
  Encoder::Moments encode(const at::Tensor& image_B3HW) const;
  /// The way back: latents [B, C, h, w] as the denoiser sees them -> image [B, 3, H, W] in [-1, 1].
  at::Tensor decode(const at::Tensor& latents_BCHW) const;

 private:
  struct Down;
  struct Up;
  CausalConfig config_;
  std::unique_ptr<Down> encoder_;
  std::unique_ptr<Up> decoder_;
  nn::Conv2d quant_conv_, post_quant_conv_;
};

}  // namespace burnish::models::vae
