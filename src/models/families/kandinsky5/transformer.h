#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/kandinsky5/config.h"

namespace burnish::models::kandinsky5 {

// Shape letters: B batch, I picture tokens, T text tokens, L = T + I, E caption width, D width, P pooled width, S width of what modulates,
// M modulation values.

/// The transformer of Kandinsky 5 Image Lite (arXiv 2511.14993; parameter names are those of diffusers' Kandinsky5Transformer3DModel): some
/// blocks of the text, then blocks of the picture, which attend to the text. What is made of the time is computed in fp32, and so is what
/// it modulates.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Makes the vector [B, S] of which all modulation is made, in fp32; sigma is fp32 in [0, 1]. Needs the modulation from block 0 on.
  at::Tensor condition(const at::Tensor& sigma_B, const at::Tensor& pooled_BP) const;
  /// Computes every shift, scale and gate [B, M] of the blocks that are held, then shift and scale of the last norm, in fp32. Needs the
  /// modulation.
  at::Tensor modulate(const at::Tensor& conditioning_BS) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor given_BCHW{};   ///< latents of the picture that is changed, of a model that reads one; undefined: there is none
    at::Tensor text_BTE;       ///< the text encoder's states
    at::Tensor mask_BT;        ///< 1 on tokens, 0 on padding
    at::Tensor modulation_BM;  ///< the result of `modulate`
    at::Tensor hidden_BLD{};   ///< replaces latents and text where the blocks begin later: the result of `forward` of the blocks before
  };
  /// Computes the velocity, noise - latents [B, C, H, W]; where later blocks are to follow, the tokens [B, L, D] after the blocks that are
  /// held, text before picture. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer (DiT, arXiv
  /// 2212.09748), one for norms. `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;
  struct Tokens {
    at::Tensor text, picture;
  };
  at::Tensor read_latents(const Inputs& in) const;
  Tokens first_tokens(const Inputs& in, int64_t num_picture) const;
  void own_modulation();
  void own_body();

  Config config_;
  mmdit::HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::kandinsky5
