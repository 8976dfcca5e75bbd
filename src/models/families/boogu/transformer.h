#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/blocks/sandwich_block.h"
#include "models/families/boogu/config.h"
#include "nn/parts.h"

namespace burnish::models::boogu {

// Shape letters: B batch, T text tokens, I picture tokens (reference pictures, then the target), L = T + I, E caption width, D width, S
// width of what modulates, M modulation values.

/// The transformer of Boogu-Image 0.1 (parameter names are those of its authors' BooguImageTransformer2DModel, which all programs have):
/// text, target and every reference picture are refined apart, then run through blocks of two streams and blocks of one.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes the vector [B, S] of which all modulation is made; sigma is fp32 in [0, 1]. Needs the modulation from block 0 on.
  at::Tensor condition(const at::Tensor& sigma_B, at::ScalarType dtype) const;
  /// Computes every scale, shift and gate [B, M] of the blocks that are held, refiners first where block 0 is, then the scale of the last
  /// norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& conditioning_BS) const;
  /// Makes the text's tokens [B, T, D] of states [B, T, E]; mask [B, T] is 1 on tokens and 0 behind them. Needs the layers of texts.
  at::Tensor refine_text(const at::Tensor& states_BTE, const at::Tensor& mask_BT) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references = {};  ///< latents of the reference pictures, each [B, C, h, w]
    at::Tensor text_BTD = {};                 ///< of `refine_text`; for a part that begins at 0
    at::Tensor hidden_BLD = {};               ///< what the blocks before gave, for a part that begins later
    at::Tensor mask_BT;
    at::Tensor modulation_BM;  ///< of `modulate`
  };
  /// Predicts noise - latents [B, C, H, W]. A part that ends before the last block gives what its blocks make of all tokens [B, L, D]. A
  /// data Error for more reference pictures than are told apart. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer, one for norms.
  /// `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Text;
  struct Body;
  struct Layout;
  using Blocks = std::vector<std::unique_ptr<SandwichBlock>>;
  Layout layout(const at::Tensor& mask_BT, const std::vector<at::Tensor>& pictures) const;
  at::Tensor refined(const Blocks& blocks, nn::Tensors inputs, const nn::Tensors& modulations) const;
  at::Tensor start_pictures(const Inputs& in, const Layout& layout, nn::Parts& modulation) const;
  at::Tensor run_blocks(const at::Tensor& text, const at::Tensor& pictures, const Layout& layout, const nn::Streams& streams,
                        nn::Parts& modulation) const;
  void own_modulation();
  void own_body();

  Config config_;
  mmdit::HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::boogu
