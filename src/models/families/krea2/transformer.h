#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/krea2/config.h"

namespace burnish::models::krea2 {

// Shape letters: B batch, T text tokens, N states of the text encoder for each, E their width, L = T + image tokens, D width.

/// The transformer of Krea 2 (parameter names are those of diffusers' Krea2Transformer2DModel): states of several layers of the text
/// encoder become one for each token of the text, and text and picture one sequence.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes of sigma [B] in fp32 the modulation of all blocks and what the last layer reads: [B, 7 D]. Where reference pictures are without
  /// noise, their modulation by the time 0 is behind it: [B, 13 D].
  at::Tensor modulate(const at::Tensor& sigma_B, at::ScalarType dtype, bool for_clean_references = false) const;
  /// Makes the text's tokens [B, T, D] of states [B, T, N, E]; mask [B, T] is 1 on tokens and 0 where there are none.
  at::Tensor fuse(const at::Tensor& states_BTNE, const at::Tensor& mask_BT) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references = {};  ///< latents of the reference pictures, each [B, C, h, w]
    at::Tensor text_BTD = {};                 ///< of `fuse`; for a part that begins at 0
    at::Tensor hidden_BLD = {};               ///< what the blocks before gave, for a part that begins later
    at::Tensor mask_BT;
    at::Tensor modulation_BM;  ///< of `modulate`; by it references are frames without noise, or lie in the target's place as it does
  };
  /// Predicts noise - latents [B, C, H, W]. A part that ends before the last block gives what its blocks make of all tokens [B, L, D].
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, norms, biases and the last layer. `seed`
  /// fixes the draw.
  void initialise(uint64_t seed);

 private:
  std::pair<at::Tensor, at::Tensor> tokens_of(const Inputs& in, const std::vector<at::Tensor>& pictures) const;
  struct Modulation;
  struct Text;
  struct Body;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Text> text_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::krea2
