#pragma once
#include <memory>

#include "models/blocks/mmdit.h"
#include "models/families/flux3/config.h"

namespace burnish::models::flux3 {

// Shape letters: B batch, C latent channels, I image tokens, R tokens of all reference pictures, T text tokens, E caption width, D width,
// M modulation values.

/// The transformer of FLUX.3 (Black Forest Labs; parameter names are those of diffusers' Flux3Transformer2DModel): a velocity field over
/// latents, of which each is a token. Text, picture and reference pictures are a stream each, which first goes through blocks of its own;
/// then blocks run over all. All blocks of a stream share shifts, scales and gates, those of the first kind and those of the second.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});
  ~Transformer() override;

  /// Computes every shift, scale and gate [B, M] in `dtype`: 3 D for the picture and 3 D for the text in blocks of their own, 3 D for the
  /// text and 3 D for the picture in the joint ones, scale and shift of the last norm. Those of reference pictures are apart, 3 D in blocks
  /// of their own and 3 D in the joint ones, so that the layers which make them have no gradient of a sample that has none; undefined
  /// unless `with_references`. `sigma` is fp32 in [0, 1]; so is `target`, where a step leads, which models read that are a flow map. Needs
  /// the modulation.
  struct Modulated {
    at::Tensor all_BM, references_BM = {};
  };
  Modulated modulate(const at::Tensor& sigma_B, const at::Tensor& target_B, bool with_references, at::ScalarType dtype) const;
  /// Makes the text's tokens [B, T, D] of the text encoder's states. Needs the text's layer.
  at::Tensor embed(const at::Tensor& text_BTE) const;

  struct Inputs {
    at::Tensor noisy_BCHW;
    std::vector<at::Tensor> references_BCHW = {};  ///< latents of reference pictures, of any sizes
    at::Tensor text_BTD{};                         ///< of `embed`; for a part that begins at 0
    at::Tensor mask_BT;                            ///< 1 on tokens and 0 where there are none
    at::Tensor modulation_BM;                      ///< of `modulate`
    at::Tensor reference_modulation_BM = {};       ///< where there are reference pictures
    at::Tensor hidden_BLD{};                       ///< what the blocks before gave, for a part that begins later
  };
  /// Computes the velocity, noise - latents [B, C, H, W]. A part that ends before the last block gives what its blocks make of all tokens
  /// [B, L, D], those of text, picture and reference pictures one behind the other. Needs the body.
  at::Tensor forward(const Inputs& in);

  /// Parts are of the joint blocks alone: all blocks of streams, counted before them (Config::early_blocks), are in the part that begins
  /// at 0.
  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch (mmdit::initialise).
  void initialise(uint64_t seed);

 private:
  struct Modulation;
  struct Body;
  struct Stream;
  std::vector<Stream> streams_of(const Inputs& in) const;
  void run_early_blocks(std::vector<Stream>& streams, const Inputs& in) const;

  Config config_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<nn::Linear> text_in_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::flux3
