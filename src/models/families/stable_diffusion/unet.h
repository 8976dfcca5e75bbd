#pragma once
#include <memory>

#include "models/families/stable_diffusion/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::stable_diffusion {

// Shape letters: B batch, C latent channels, H, W latent rows and columns, T text tokens, E width of an embedding.

/// Runs linear, SiLU, linear: it embeds time and the added conditions.
class EmbedMlp : public nn::Module {
 public:
  EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear linear_1_, linear_2_;
};

struct UNetLevel;
struct UNetMiddle;

/// The UNet of Stable Diffusion 1.5 and XL (Rombach et al. 2022, arXiv 2112.10752; Podell et al. 2023, arXiv 2307.01952; parameter
/// names are those of diffusers' UNet2DConditionModel). Single-device maths only.
class UNet : public nn::Module {
 public:
  UNet(const Config& config, const at::TensorOptions& options);
  ~UNet() override;

  struct Inputs {
    at::Tensor latents_BCHW;  ///< any H and W; sizes that do not halve evenly are met again on the way up
    at::Tensor timestep_B;    ///< fp32, 0 to 1000, may be fractional
    at::Tensor text_BTE;      ///< text embedding, E = cross_attention_dim
    at::Tensor pooled_BE;     ///< SDXL: pooled text embedding; ignored without added embedding
    at::Tensor time_ids_B6;   ///< SDXL: original height, width, crop top, left, target height, width; ignored without
  };

  /// Computes what the model was trained to predict (noise or velocity) [B, out_channels, H, W] in the dtype of the weights.
  at::Tensor forward(const Inputs& in);

  /// Returns residual and transformer blocks in the order in which they run.
  std::vector<nn::Block*> blocks();
  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: uniform within 1/sqrt(fan-in) for matrices and kernels, zero for biases and for what
  /// ends a residual branch (conv2, proj_out, conv_out), one for norms, as latent diffusion's authors have it. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  at::Tensor conditioning(const Inputs& in) const;

  Config config_;
  nn::Conv2d conv_in_, conv_out_;
  EmbedMlp time_embedding_;
  std::unique_ptr<EmbedMlp> add_embedding_;
  std::vector<std::unique_ptr<UNetLevel>> down_, up_;
  std::unique_ptr<UNetMiddle> middle_;
  nn::GroupNorm conv_norm_out_;
};

}  // namespace burnish::models::stable_diffusion
