#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/sd3/config.h"

namespace burnish::models::sd3 {

// Shape letters: B batch, I image tokens, T text tokens, L = T + I, E caption width, D width, P pooled width, M modulation values.

/// The transformer of Stable Diffusion 3.5 (Esser et al. 2024, arXiv 2403.03206; parameter names are those of diffusers'
/// SD3Transformer2DModel): blocks of two streams, to whose image tokens a table's places are added before all blocks.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes the vector [B, D] of which all modulation is made, in the dtype of the pooled embeddings; sigma is fp32 in [0, 1]. Needs the
  /// modulation from block 0 on.
  at::Tensor condition(const at::Tensor& sigma_B, const at::Tensor& pooled_BP) const;
  /// Computes every shift, scale and gate [B, M] of the blocks that are held, the image's before the text's, then scale and shift of the
  /// last norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& conditioning_BD) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor text_BTE;       ///< the states of all text encoders
    at::Tensor modulation_BM;  ///< the result of `modulate`
    at::Tensor hidden_BLD{};   ///< replaces latents and text where the blocks begin later: the result of `forward` of the blocks before
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, L, D] after the blocks that are
  /// held, text before image. Throws a data Error for a picture beyond the table of places. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer (DiT, arXiv
  /// 2212.09748), one for norms, sinusoids for places. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;
  at::Tensor embedded(const at::Tensor& noisy_BCHW, at::ScalarType dtype) const;

  Config config_;
  mmdit::HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::sd3
