#pragma once
#include <functional>

#include "models/vae/autoencoder_kl.h"

namespace burnish::models::vae {

/// The pixels that a causal autoencoder takes.
struct CausalPixels {
  int64_t channels = 3;  ///< numbers of a pixel; 4 where the last says how opaque it is, as in Qwen-Image-Layered
  int64_t patch = 1;     ///< the side of a patch of pixels that the encoder takes as one place
};

/// Numbers of a causal autoencoder. Defaults are those of Qwen-Image and of Wan 2.1, whose files hold neither mean nor deviation.
struct CausalConfig {
  int64_t first_channels = 96;
  std::vector<int64_t> block_out_channels = {96, 192, 384, 384};
  std::vector<int64_t> decoder_channels = {96, 192, 384, 384};  ///< channels of the decoder's levels, in the encoder's order
  int64_t layers_per_block = 2;
  int64_t latent_channels = 16;
  std::vector<double> latents_mean = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                      0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
  std::vector<double> latents_std = {2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743,
                                     3.2687, 2.1526, 2.8652, 1.5579, 1.6382, 1.1253, 2.8251, 1.9160};
  int64_t tile_size = 0;  ///< see KlConfig

  /// Says whether kernels have a length in time. Without it, clips of one frame, pictures, are all that can be encoded and decoded.
  bool in_time = false;
  /// Says which of the encoder's steps from level to level halve the frames; the decoder's steps mirror them. Without `in_time` shortcuts
  /// alone go by it, as if a picture were a clip of one frame.
  std::vector<bool> halves_frames = {};
  /// Says whether what enters a level is added to what leaves it, brought to its size without weights, as in Wan 2.2.
  bool shortcuts = false;
  CausalPixels pixels = {};

  /// Returns the pixels per latent along a side.
  int64_t downsampling() const { return pixels.patch << (block_out_channels.size() - 1); }
  /// Says whether files' kernels have no length in time either, and steps between frames that nothing runs: the autoencoder of pictures
  /// that was made of one of clips.
  bool is_flat() const { return shortcuts && !in_time; }
  /// Returns the frames per latent in time, behind the first frame of a clip, which has a latent of its own.
  int64_t frames_per_latent() const;
};

/// Returns the numbers of Qwen-Image-2.1's autoencoder, which is flat.
CausalConfig flat_causal_config();

/// Reads sizes from shapes (our names), and mean and deviation from config.json (null for none).
CausalConfig causal_config(const nlohmann::json& config_json, const io::Shapes& shapes);

/// The uses that a causal autoencoder is made for: for pictures and for layers, which are pictures with transparency, it has the weights
/// that meet one, kernels of a single slice in time.
enum class CausalFor { pictures, clips, layers };

/// Returns the weights of `source` that are needed: for pictures, not those that join frames in time alone.
io::TensorSource causal_tensors(const io::TensorSource& source, CausalFor use = CausalFor::pictures);

/// Returns the rules between the names of `source` (original or diffusers') and ours, which are diffusers'.
io::KeyMap causal_keys(const io::TensorSource& source, CausalFor use = CausalFor::pictures);
/// Tells whether the tensors of an autoencoder, in diffusers' or original names, are those of a flat one.
bool is_flat_causal(const io::TensorSource& source);
/// Returns the rules for diffusers' names, and for the original names of an autoencoder of this size.
io::KeyMap diffusers_causal_keys(CausalFor use = CausalFor::pictures);
io::KeyMap original_causal_keys(const CausalConfig& config);

class CausalConv;

/// Takes frames [B, P, F, H, W] in [-1, 1] of a clip, P being pixels.channels; `first` is the number of the first, and earlier frames were
/// given before.
using TakeFrames = std::function<void(int64_t first, const at::Tensor& frames_B3FHW)>;

/// The autoencoder of Qwen-Image (for pictures) and of Wan 2.1 and 2.2 (names of diffusers' AutoencoderKLQwenImage and AutoencoderKLWan),
/// and the flat one of Qwen-Image-2.1 (AutoencoderKLQwenImage21), of whose four channels three are given and taken.
/// Its convolutions in time are causal and begin with zeros. A clip has 1 + k · frames_per_latent() frames and 1 + k latents; a picture is
/// a clip of a single frame, of which kernels' last slices alone have a part in it, and may come without the dimension F.
///
/// A clip goes through in chunks of one frame of latents: what is there at once does not grow with its length, but for the clip itself.
class CausalAutoencoder : public nn::Module {
 public:
  CausalAutoencoder(const CausalConfig& config, const at::TensorOptions& options);
  ~CausalAutoencoder() override;
  /// Encodes a clip [B, P, F, H, W] or picture [B, P, H, W], in [-1, 1] or in bytes that stand for it, H and W multiples of downsampling()
  /// -> the moments of its latents [B, C, f, h, w] or [B, C, h, w], brought to mean 0 and deviation 1.
  Encoder::Moments encode(const at::Tensor& clip) const;
  /// Decodes latents as the denoiser sees them. `take` is given the frames as they are made, in order.
  void decode(const at::Tensor& latents_BCFHW, const TakeFrames& take) const;
  /// Returns all frames [B, P, F, H, W] in [-1, 1], for a picture's latents [B, C, h, w] the picture [B, P, H, W].
  at::Tensor decode(const at::Tensor& latents) const;

 private:
  struct Down;
  struct Up;
  /// Computes the moments of a clip, or of a tile of one, side by side and as the layers make them.
  at::Tensor run_encoder(const at::Tensor& clip_B3FHW) const;

  CausalConfig config_;
  std::unique_ptr<Down> encoder_;
  std::unique_ptr<Up> decoder_;
  std::unique_ptr<CausalConv> quant_conv_, post_quant_conv_;
};

}  // namespace burnish::models::vae
