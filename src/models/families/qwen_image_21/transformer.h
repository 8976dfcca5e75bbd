#pragma once
#include <memory>
#include <utility>

#include "models/blocks/mmdit.h"
#include "models/families/qwen_image_21/config.h"

namespace burnish::models::qwen_image_21 {

class ControlNet;

// Shape letters: B batch, C latent channels, T text tokens, E caption width, L all tokens, D width, M modulation values,
// N numbers of a control token.

/// The transformer of Qwen-Image-2.1 (parameter names are those of diffusers' QwenImage21Transformer2DModel): a velocity field over
/// latents, of which each is a token, in one stream behind text and reference pictures, which see neither it nor the time.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes scales and gates [B, M] in `dtype`, of sigma, fp32 in [0, 1]: 4 D of the blocks for the target, 4 D for text and references,
  /// whose time is 0, and the scale of the last norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references = {};  ///< latents of the reference pictures, each [B, C, h, w]
    std::vector<at::Tensor> between = {};     ///< states [B, t, E] of the text before each of them, behind the one before it
    at::Tensor text_BTE = {};                 ///< states of the text behind the last reference; for a part that begins at 0
    at::Tensor hidden_BLD = {};               ///< what the blocks before gave, for a part that begins later
    at::Tensor mask_BT;                       ///< 1 for its tokens, and 0 behind them
    at::Tensor modulation_BM;                 ///< the result of `modulate`
    ControlNet* control = nullptr;            ///< what controls, by `control_BNHW`; null: nothing does
    at::Tensor control_BNHW = {};
  };
  /// Computes the velocity, noise - latents [B, C, H, W]. A part that ends before the last block gives what its blocks make of all tokens
  /// [B, L, D], the target's last. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch (mmdit::initialise).
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;
  struct Sequence;
  Sequence sequence_of(const Inputs& in) const;
  std::pair<at::Tensor, at::Tensor> tokens_of(const Inputs& in, int64_t num_condition) const;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::qwen_image_21
