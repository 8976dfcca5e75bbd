#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/moss_image/config.h"

namespace burnish::models::moss_image {

// Shape letters: B batch, C latent channels, T text tokens, I picture tokens, R tokens of reference pictures, L = T + I, E caption width,
// D width, M modulation values.

/// The transformer of MOSS-Image (OpenMOSS; parameter names are those of its files): a velocity field over latents, of which each is a
/// token, in one stream with those of the text. All blocks share their shifts, scales and gates. Reference pictures see neither text nor
/// picture nor the time.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`, of sigma, fp32 in [0, 1]: 6 D of the blocks, then shift and scale of the last
  /// norm, and with references 6 D of theirs, whose time is 0. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool with_references) const;
  /// Makes the text's tokens [B, T, D] of states [B, T, E]; mask [B, T] is 1 on tokens and 0 behind them. Needs the text's layers.
  at::Tensor embed(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor mask_BT;                            ///< 1 for a text's tokens, which come first, and 0 behind them
    std::vector<at::Tensor> references_BCHW = {};  ///< latents of reference pictures, of any sizes
    at::Tensor text_BTD{};                         ///< the result of `embed`; for a part that begins at 0
    at::Tensor modulation_BM;                      ///< the result of `modulate`
    at::Tensor hidden_BLD{};                       ///< what the blocks before gave [B, R + L, D], for a part that begins later
    int64_t left_out = -1;                         ///< number of a block that is not run; -1: none
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, R + L, D] after the blocks that
  /// are held, references before text before picture. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch (mmdit::initialise).
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Text;
  struct Body;
  /// Tokens as they enter the first block that is held; references are undefined where there are none.
  struct Tokens {
    at::Tensor references, text, picture;
  };
  Tokens tokens_of(const Inputs& in, int64_t num_references) const;

  Config config_;
  mmdit::HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::moss_image
