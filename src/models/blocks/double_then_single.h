#pragma once
#include <functional>
#include <memory>
#include <utility>

#include "models/blocks/mmdit.h"

namespace burnish::models::mmdit {

// Shape letters, beside those of mmdit.h: E caption width, C channels of a token, M modulation values.

/// Sizes of a transformer of blocks of two streams, then blocks of one.
struct TrunkSizes {
  int64_t in_channels, out_channels;  ///< of a token
  int64_t caption_width;
  int64_t num_double, num_single;
  Widths widths;
  std::vector<int64_t> axes;  ///< numbers of a head for each axis of places
  /// The names of the layers that embed what all modulation is made of, and how many numbers each reads.
  std::vector<std::pair<std::string, int64_t>> embedders;
};

/// A velocity field over tokens of latents, with the blocks and the names of FLUX.1 (Black Forest Labs; diffusers' FluxTransformer2DModel):
/// every block has a modulation of its own, made of one vector, and a last norm has one too. Families say of what the vector is made, and
/// where tokens sit. Layers are visited in the same order whatever they are part of.
class DoubleThenSingle : public nn::Module, public nn::SharesTokens {
 public:
  DoubleThenSingle(const TrunkSizes& sizes, const at::TensorOptions& options, HeldLayers part);
  ~DoubleThenSingle() override;

  /// Computes every shift, scale and gate [B, M] of the blocks that are held: 6 D for the image and 6 D for the text of each double block,
  /// 3 D of each single block, then scale and shift of the last norm. Needs the modulation.
  at::Tensor modulate(const at::Tensor& conditioning_BD) const;

  /// Fills every parameter for training from scratch: Xavier for matrices, zero for modulations and the last layer (DiT, arXiv
  /// 2212.09748), one for norms. `seed` fixes the draw, for the whole transformer.
  void initialise(uint64_t seed);

 protected:
  /// Runs one of the embedders, by its number, which are held from block 0 on.
  at::Tensor embedded(size_t number, const at::Tensor& x) const;

  /// The image tokens and where all tokens sit.
  struct Layout {
    int64_t num_image = 0, num_target = 0;  ///< the target's tokens come first
    /// Makes the places [T + I] of each axis, fp64, text first.
    std::function<std::vector<at::Tensor>(int64_t num_text, const at::TensorOptions& options)> places;
  };
  struct BlockInputs {
    at::Tensor latents_BIC, text_BTE;
    at::Tensor modulation_BM;
    at::Tensor hidden_BLD{};  ///< replaces latents and text where the blocks begin later: the result of the blocks before
    at::Tensor added_BID{};   ///< added to the embedded latents; undefined: nothing
    at::Tensor prefix_BTD{};  ///< tokens before the embedded text; undefined: none
    /// Gives what a block's attention has besides, for a block that is held, counted from 0, double blocks first; empty: nothing.
    std::function<Further(int64_t block)> further = {};
    /// Given the image tokens [B, I, D] behind a block, returns tokens that take their place, or undefined to leave them; empty: nothing.
    std::function<at::Tensor(int64_t block, const at::Tensor& image_BID)> after_block = {};
  };
  /// Computes the velocity [B, I, out_channels] of the target's tokens alone, in the dtype of the weights; where later blocks are to
  /// follow, the tokens [B, L, D] after the blocks that are held, text before image. Needs the body.
  at::Tensor run_blocks(const BlockInputs& in, const Layout& layout);
  /// Tells whether the layers behind all blocks are held.
  bool holds_last() const;

 private:
  struct Modulation;
  struct Body;
  struct Tokens;
  Tokens tokens_of(const BlockInputs& in, const Layout& layout) const;

  TrunkSizes sizes_;
  HeldLayers part_;
  std::unique_ptr<Modulation> modulation_;
  std::unique_ptr<Body> body_;
};

}  // namespace burnish::models::mmdit
