#pragma once
#include <memory>

#include "models/families/zimage/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

namespace burnish::models::zimage {

// Shape letters: B batch, T caption tokens, L tokens of picture and caption, D width, E caption width, C conditioning, P rotated pairs.

/// The layers that a Transformer holds: main layers from `begin` to before `end`; all that comes before the main layers, the refiners too,
/// with `start`; what comes after them counts as one more layer.
struct HeldLayers {
  bool start = true;
  int64_t begin = 0, end = -1;  ///< -1: all that follow
};

/// The transformer of Z-Image (arXiv 2511.22699; parameter names are those of diffusers' ZImageTransformer2DModel): picture and caption are
/// refined apart, then run through the main layers as one sequence. Both are filled up to a multiple of 32 tokens with learned ones, which
/// are attended to. Layers are visited in the same order whatever they are part of.
class Transformer : public nn::Module, public nn::SharesTokens {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, HeldLayers part = {});
  ~Transformer() override;

  struct Inputs {
    at::Tensor noisy_BCHW;
    at::Tensor mask_BT;            ///< 1 for a caption's tokens, which come first, and 0 behind them
    at::Tensor text_BTE{};         ///< the text encoder's states; read by the start alone, as sigma is
    at::Tensor sigma_B{};          ///< fp32 in [0, 1]
    at::Tensor hidden_BLD{};       ///< replaces text and sigma where the part begins later: tokens from the layers before
    at::Tensor conditioning_BC{};  ///< replaces them too: `conditioning_BC` from the layers before
  };
  struct Out {
    at::Tensor velocity_BCHW;    ///< noise - latents, which is the negative of what the layers make; from a part that holds the end
    at::Tensor hidden_BLD;       ///< the tokens after the layers that are held, from other parts
    at::Tensor conditioning_BC;  ///< what is made of the time, from other parts
  };
  Out forward(const Inputs& in);

  const Config& config() const { return config_; }

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations, biases and the last layer, one for norms.
  /// `seed` fixes the draw.
  void initialise(uint64_t seed);

 private:
  struct Start;
  struct End;
  struct Layout;
  Layout layout(const Inputs& in) const;
  at::Tensor condition(const at::Tensor& sigma_B, at::ScalarType dtype) const;
  at::Tensor start_tokens(const Inputs& in, const Layout& layout, const at::Tensor& conditioning_BC);
  at::Tensor refined(const std::vector<std::unique_ptr<nn::Block>>& blocks, const at::Tensor& x_BLD, int64_t begin, const Layout& layout,
                     const at::Tensor& conditioning_BC) const;
  at::Tensor velocity(const at::Tensor& tokens_BLD, const at::Tensor& conditioning_BC, const Layout& layout,
                      const nn::Streams& streams) const;

  Config config_;
  HeldLayers part_;
  std::unique_ptr<Start> start_;
  std::vector<std::unique_ptr<nn::Block>> layers_;
  std::unique_ptr<End> end_;
};

}  // namespace burnish::models::zimage
