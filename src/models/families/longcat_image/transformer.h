#pragma once
#include "models/blocks/double_then_single.h"
#include "models/families/longcat_image/config.h"

namespace burnish::models::longcat_image {

// Shape letters: B batch, T text tokens, L all tokens, E caption width, D width, M modulation values.

/// The transformer of LongCat-Image (meituan-longcat/LongCat-Image; parameter names are those of diffusers'
/// LongCatImageTransformer2DModel): FLUX.1's, with all modulation made of the time alone, and places of its own.
class Transformer : public mmdit::DoubleThenSingle {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});

  /// Makes the vector [B, D] of which all modulation is made, in `dtype`; sigma is fp32 in [0, 1]. Needs the modulation from block 0 on.
  at::Tensor condition(const at::Tensor& sigma_B, at::ScalarType dtype) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references_BCHW{};  ///< latents of the pictures that are changed
    at::Tensor text_BTE;                        ///< the text encoder's states, padding among them
    at::Tensor modulation_BM;                   ///< the result of `modulate`
    at::Tensor hidden_BLD{};                    ///< replaces latents and text where the blocks begin later: the result of those before
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, L, D] after the blocks that are
  /// held, text before pictures. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

 private:
  Config config_;
};

}  // namespace burnish::models::longcat_image
