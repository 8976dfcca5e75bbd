#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/ideogram4/config.h"

namespace burnish::models::ideogram4 {

// Shape letters: B batch, C latent channels, T text tokens, I picture tokens, L = T + I, E width of the text encoder's states, D width, M
// width of the conditioning.

/// A transformer of Ideogram 4 (parameter names are those of diffusers' Ideogram4Transformer2DModel): a velocity field over latents, of
/// which each is a token, in one stream with those of a text, or alone.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes the conditioning [B, M] of sigma, fp32 in [0, 1], in `dtype`. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;
  /// Makes the text's tokens [B, T, D] of states [B, T, E]. Needs the text.
  at::Tensor embed(const at::Tensor& states_BTE) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor text_BTD = {};  ///< of `embed`; undefined: there is no text
    at::Tensor mask_BT = {};   ///< 1 for a text's tokens, which come first, and 0 behind them
    at::Tensor condition_BM;   ///< of `modulate`
  };
  /// Predicts noise - latents [B, C, H, W], which is the negative of what the layers make. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch (mmdit::initialise).
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Text;
  struct Body;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::ideogram4
