#pragma once
#include <nlohmann/json_fwd.hpp>

#include "io/key_map.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::vae {

/// Numbers of a KL autoencoder. Defaults are FLUX.1's.
struct KlConfig {
  std::vector<int64_t> block_out_channels = {128, 256, 512, 512};
  std::vector<int64_t> decoder_channels = {};  ///< the same of the decoder, where that is narrower; none: as many
  int64_t layers_per_block = 2;
  int64_t latent_channels = 16;
  int64_t norm_num_groups = 32;
  double scaling_factor = 0.3611;
  double shift_factor = 0.1159;
  bool use_quant_conv = false;
  bool use_post_quant_conv = false;
  int64_t tile_size = 0;  ///< larger pictures are encoded and decoded in tiles of so many pixels a side (vae/tiles.h); 0: whole

  /// Returns the channels of the decoder's levels, the finest first.
  const std::vector<int64_t>& channels_of_decoder() const { return decoder_channels.empty() ? block_out_channels : decoder_channels; }
  /// Returns the pixels per latent along a side.
  int64_t downsampling() const { return int64_t{1} << (block_out_channels.size() - 1); }
};

/// What latents are multiplied by, after `shift` was taken from them. Defaults are FLUX.1's.
struct KlLatents {
  double scale = KlConfig{}.scaling_factor, shift = KlConfig{}.shift_factor;
};

/// Reads sizes from shapes (our names) and the rest from config.json (null for none; FLUX.1's values then, and for latents
/// `without_config`, whose shift is of 16 channels alone).
KlConfig kl_config(const nlohmann::json& config_json, const io::Shapes& shapes, const KlLatents& without_config = {});

/// Tells whether `source` names its tensors as the original latent-diffusion code does (`ae.safetensors`).
bool has_original_names(const io::TensorSource& source);

/// Returns the rules between the original names of an autoencoder with this many levels, or diffusers' names, and ours. The convolutions of
/// latents stand beside the original encoder and decoder, or else within them.
io::KeyMap original_kl_keys(size_t num_levels, bool beside = true);
io::KeyMap diffusers_kl_keys();

/// Returns the rules between the names of `source` (original or diffusers') and ours.
io::KeyMap kl_keys(const io::TensorSource& source);

struct Level;
struct MidBlock;

/// Encodes pictures as the moments of their latents (Rombach et al. 2022, arXiv 2112.10752; names of diffusers' AutoencoderKL).
class Encoder : public nn::Module {
 public:
  Encoder(const KlConfig& config, const at::TensorOptions& options);
  ~Encoder() override;
  struct Moments {
    at::Tensor mean_BCHW, logvar_BCHW;  ///< logvar clamped to -30..20
  };
  /// Takes image [B, 3, H, W] in [-1, 1]; H and W are multiples of downsampling().
  Moments forward(const at::Tensor& image_B3HW) const { return moments_of(run(image_B3HW)); }
  /// Computes mean and logvar side by side in one tensor [B, 2C, h, w], as the layers make them; `moments_of` takes them apart.
  at::Tensor run(const at::Tensor& image_B3HW) const;
  static Moments moments_of(const at::Tensor& both_BCHW);

 private:
  std::vector<std::unique_ptr<Level>> levels_;
  std::unique_ptr<MidBlock> mid_;
  nn::Conv2d conv_in_, conv_out_;
  nn::GroupNorm norm_out_;
  std::unique_ptr<nn::Conv2d> quant_conv_;
};

/// Decodes latents as pictures.
class Decoder : public nn::Module {
 public:
  Decoder(const KlConfig& config, const at::TensorOptions& options);
  ~Decoder() override;
  /// Takes latents [B, C, h, w] as the encoder's mean has them -> [B, 3, H, W], about [-1, 1].
  at::Tensor forward(const at::Tensor& latents_BCHW) const;

 private:
  std::vector<std::unique_ptr<Level>> levels_;
  std::unique_ptr<MidBlock> mid_;
  nn::Conv2d conv_in_, conv_out_;
  nn::GroupNorm norm_out_;
  std::unique_ptr<nn::Conv2d> post_quant_conv_;
};

/// Has both halves, with the affine map between raw latents and those the denoiser sees: (z - shift) · scale.
class AutoencoderKL : public nn::Module {
 public:
  AutoencoderKL(const KlConfig& config, const at::TensorOptions& options);
  at::Tensor to_model(const at::Tensor& mean_BCHW) const;
  /// Returns the moments of `image` after that map.
  Encoder::Moments encode(const at::Tensor& image_B3HW) const;
  at::Tensor from_model(const at::Tensor& latents_BCHW) const;
  /// Decodes latents as the denoiser sees them -> image [B, 3, H, W].
  at::Tensor decode(const at::Tensor& latents_BCHW) const;

  Encoder encoder;
  Decoder decoder;

 private:
  KlConfig config_;
};

}  // namespace burnish::models::vae
