#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/flux2/config.h"

namespace burnish::models::flux2 {

// Shape letters: B batch, C latent channels, I image tokens (of the target, then of its reference pictures), T text tokens, L = T + I,
// E caption width, D width, P rotated pairs, M modulation values.

/// The transformer of FLUX.2 (Black Forest Labs; parameter names are those of diffusers' Flux2Transformer2DModel): a velocity field over
/// latents, of which each is a token. All blocks of a kind share their shifts, scales and gates.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`, of sigma, fp32 in [0, 1], and of guidance, fp32, which models without an
  /// embedder of it do not read: 6 D for the picture and 6 D for the text of double blocks, 3 D of single blocks, then scale and shift of
  /// the last norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype, const at::Tensor& guidance_B = {}) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references_BCHW = {};  ///< latents of reference pictures, of any sizes
    at::Tensor text_BTE;                           ///< the text encoder's states
    at::Tensor modulation_BM;                      ///< the result of `modulate`
    at::Tensor hidden_BLD{};                       ///< replaces the text where the blocks begin later: the result of the blocks before
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, L, D] after the blocks that are
  /// held, text before image. Needs the body.
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

}  // namespace burnish::models::flux2
