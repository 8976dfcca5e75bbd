#pragma once
#include <memory>

#include "models/anima/config.h"
#include "models/mmdit.h"
#include "nn/token_shares.h"

namespace burnish::models::anima {

// Shape letters: B batch, T rows of the text, E their width, D width.

/// The transformer of Anima, whose body is that of Cosmos-Predict2 (arXiv 2501.03575; parameter names are those of diffusers'
/// CosmosTransformer3DModel).
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::Part part = {});
  ~Transformer() override;

  /// Makes of sigma [B], fp32 in [0, 1], the shifts, scales and gates of all blocks, and shift and scale of the last norm: [B, (9 N + 2)
  /// D]. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor text_BTE;       ///< rows of the conditioner, and behind them one of zeros
    at::Tensor counts_BT;      ///< how many rows each of them stands for (models/padding_row.h)
    at::Tensor modulation_BM;  ///< of `modulate`
  };
  /// Predicts noise - latents [B, C, H, W]. Needs the body.
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
