#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/chroma/config.h"

namespace burnish::models::chroma {

// Shape letters: B batch, I image tokens, T text tokens, E caption width, D width, M modulation values.

/// The transformer of Chroma (lodestones/Chroma1-HD; parameter names are those of diffusers' ChromaTransformer2DModel): blocks of two
/// streams and of one, whose modulation a network of its own makes of the time and of each vector's number.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`, of sigma, fp32 in [0, 1]: 3 D for each single block, 6 D for the picture, then
  /// 6 D for the caption of each double block, then shift and scale of the last norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor text_BTE;       ///< T5's states
    at::Tensor mask_BT;        ///< 1 for a caption's tokens, which come first, and 0 behind them, where nothing is read
    at::Tensor modulation_BM;  ///< the result of `modulate`
  };
  /// Computes the velocity, noise - latents [B, C, H, W]. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for biases, the last layer and what makes the modulation's
  /// vectors, one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Approximator;
  struct Body;

  Config config_;
  std::unique_ptr<Approximator> approximator_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::chroma
