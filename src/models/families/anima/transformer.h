#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/anima/config.h"
#include "nn/token_shares.h"

namespace burnish::models::anima {

// Shape letters: B batch, I image tokens, T rows of the text, E their width, D width, M modulation values.

/// The transformer of Anima, whose body is that of Cosmos-Predict2 (arXiv 2501.03575; parameter names are those of diffusers'
/// CosmosTransformer3DModel).
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma [B], fp32 in [0, 1], that of which all modulation is made: [B, 4 D] in `dtype`. Needs the modulation from block 0 on.
  at::Tensor condition(const at::Tensor& sigma_B, at::ScalarType dtype) const;
  /// Makes of it the shifts, scales and gates of the N blocks that are held, [B, 9 N D], and behind those of the last block shift and scale
  /// of the last norm [B, 2 D]. Needs the modulation.
  at::Tensor modulate(const at::Tensor& conditioning_B4D) const;
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const { return modulate(condition(sigma_B, dtype)); }

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor text_BTE;       ///< rows of the conditioner, and behind them one of zeros
    at::Tensor counts_BT;      ///< how many rows each of them stands for (models/blocks/padding_row.h)
    at::Tensor modulation_BM;  ///< of `modulate`
    at::Tensor hidden_BLD{};   ///< what the blocks before gave, for a part that begins later: all tokens are the picture's, L = I
  };
  /// Predicts noise - latents [B, C, H, W]. A part that ends before the last block gives what its blocks make of the tokens [B, I, D].
  /// Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations and the last layer (DiT, arXiv 2212.09748),
  /// one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::anima
