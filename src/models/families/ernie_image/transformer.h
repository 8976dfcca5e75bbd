#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/ernie_image/config.h"

namespace burnish::models::ernie_image {

// Shape letters: B batch, C latent channels, T text tokens, I picture tokens, L = T + I, E caption width, D width, P width of a head, M
// modulation values.

/// The transformer of ERNIE-Image (Baidu; parameter names are those of diffusers' ErnieImageTransformer2DModel): a velocity field over
/// latents, of which each is a token, in one stream with those of the text. All blocks share their shifts, scales and gates.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`, of sigma, fp32 in [0, 1]: 6 D of the blocks, then scale and shift of the last
  /// norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor mask_BT;        ///< 1 for a text's tokens, which come first, and 0 behind them
    at::Tensor text_BTE;       ///< the text encoder's states
    at::Tensor modulation_BM;  ///< the result of `modulate`
    at::Tensor hidden_BLD{};   ///< replaces the text where the blocks begin later: the result of the blocks before
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, L, D] after the blocks that are
  /// held, text before picture. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch (mmdit::initialise).
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;

  Config config_;
  mmdit::HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::ernie_image
