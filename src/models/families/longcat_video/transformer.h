#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/longcat_video/config.h"

namespace burnish::models::longcat_video {

// Shape letters: B batch, L tokens, T text tokens, E caption width, D width, N blocks, M = (6 N + 2) D modulation values.

/// The transformer of LongCat-Video (arXiv 2510.22200; parameter names are those of its LongCatVideoTransformer3DModel, but for layers of
/// attention that are fused there). What is made of the time is computed in fp32, and so is what it modulates.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma, fp32 in [0, 1], every shift, scale and gate of the blocks, then shift and scale of the last norm [B, M], in fp32.
  /// Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B) const;

  struct Inputs {
    at::Tensor noisy_BCFHW;
    /// Umt5's states, and behind them a row of zeros for each text that is shorter than what the model was trained with.
    at::Tensor text_BTE;
    at::Tensor counts_BT;                 ///< the tokens that a row of the text stands for: 1, for the row of zeros all that are missing
    at::Tensor modulation_BM;             ///< the result of `modulate`
    at::Tensor given_modulation_BM = {};  ///< of sigma 0, where frames are given
    int64_t num_given = 0;                ///< first frames of the latents that are given, without noise
  };
  /// Computes the velocity, noise - latents [B, C, F, H, W]. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }
  /// Lists its blocks in order of execution.
  std::vector<nn::Block*> blocks() const;

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer (DiT, arXiv
  /// 2212.09748), one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;

  void own_modulation();
  void own_body();

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::longcat_video
