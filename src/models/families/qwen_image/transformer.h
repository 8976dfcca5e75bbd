#pragma once
#include <functional>
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/qwen_image/config.h"

namespace burnish::models::qwen_image {

// Shape letters: B batch, I image tokens (of the target, then of its reference pictures), T text tokens, L = T + I, E caption width, D
// width, P rotated pairs, M modulation values.

/// The transformer of Qwen-Image (arXiv 2508.02324; parameter names are those of diffusers' QwenImageTransformer2DModel): picture and
/// caption run in two streams with one attention. The last block's caption tokens are not read.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`, of sigma, fp32 in [0, 1]: 6 D for the picture and 6 D for the caption of each
  /// block, then scale and shift of the last norm. Where the config says zero_cond_t and there are references, 6 D more stand behind those
  /// of each block: for the reference pictures, of sigma 0. Needs the modulation.
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool with_references = false) const;

  struct Inputs {
    at::Tensor noisy_BCHW;                    ///< of layers [B, C, F, H, W]
    std::vector<at::Tensor> references = {};  ///< latents of the reference pictures [B, C, h, w], each of its own size
    at::Tensor text_BTE;                      ///< the text encoder's states
    at::Tensor mask_BT;                       ///< 1 for a caption's tokens, which come first, and 0 behind them, where nothing is read
    at::Tensor modulation_BM;                 ///< the result of `modulate`
    /// Given the target's tokens [B, I, D] behind a block, returns tokens that take their place; empty: nothing.
    std::function<at::Tensor(int64_t block, const at::Tensor& image_BID)> after_block = {};
  };
  /// Computes the velocity, noise - latents, of the noisy latents' shape. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer (DiT, arXiv
  /// 2212.09748), one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;
  std::pair<at::Tensor, at::Tensor> rope(int64_t num_text, const std::vector<at::Tensor>& pictures, int64_t num_targets,
                                         const at::TensorOptions& options) const;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::qwen_image
