#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/fibo2/config.h"

namespace burnish::models::fibo2 {

// Shape letters: B batch, C numbers of a patch of latents, T text tokens, N states of each, E their width, G gist tokens, R tokens of
// reference pictures, I picture tokens, D width, M modulation values.

/// The transformer of FIBO 2 (Bria; parameter names are those of diffusers' BriaFibo2Transformer2DModel): a text becomes a few tokens, its
/// gist, which run with the picture's through blocks of one stream. Some blocks read the text's own states too. Gist and reference pictures
/// are modulated by the time 0.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma [B] in fp32 what all modulation is made of, and behind it that of the time 0: [B, M]. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;
  /// Makes the gist [B, G, D] of states [B, T, N, E]; mask [B, T] is 1 on tokens and 0 behind them. Needs the text's layers.
  at::Tensor gist(const at::Tensor& states_BTNE, const at::Tensor& mask_BT) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references_BCHW = {};  ///< latents of reference pictures, of any sizes
    at::Tensor text_BTNE;
    at::Tensor mask_BT;        ///< 1 for a text's tokens, which come first, and 0 behind them
    at::Tensor gist_BGD{};     ///< the result of `gist`; for a part that begins at 0
    at::Tensor modulation_BM;  ///< the result of `modulate`
    at::Tensor hidden_BLD{};   ///< what the blocks before gave [B, G + R + I, D], for a part that begins later
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, G + R + I, D] after the blocks
  /// that are held. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, gates, biases and the last layer, one for
  /// norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Text;
  struct Body;
  /// Tokens as they enter the first block that is held or leave the last; references are undefined where there are none.
  struct Tokens {
    at::Tensor gist, references, picture;
  };
  /// Rotary tables [L, P] of all tokens, in the order of Tokens.
  struct Tables {
    at::Tensor cos, sin;
  };
  Tokens tokens_of(const Inputs& in) const;
  Tables tables_of(const Inputs& in, int64_t num_gist) const;
  void refine(Tokens& tokens, const Tables& tables, const at::Tensor& modulation_BM) const;
  at::Tensor run_layers(Tokens& tokens, const Tables& tables, const Inputs& in) const;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::fibo2
