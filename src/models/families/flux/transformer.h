#pragma once
#include <functional>

#include "models/blocks/double_then_single.h"
#include "models/families/flux/config.h"

namespace burnish::models::flux {

// Shape letters: B batch, I image tokens (of the target, then of its reference pictures), T text tokens, L = T + I, D width, H heads, P =
// head_dim / 2 rotated pairs, M modulation values.

/// The numbers of rows and columns in which a picture's tokens lie, row by row.
struct Grid {
  int64_t rows = 0, columns = 0;
  int64_t size() const { return rows * columns; }
};

/// The pictures whose tokens lie behind each other. Positions are FLUX.1 Kontext's (diffusers: pipeline_flux_kontext.py; for several
/// pictures DiffSynth-Studio: pipelines/flux_image.py): the first id is 0 in the target and 1 in each reference picture, the others are row
/// and column in their own picture. In Step1X-Edit the first id of the reference picture is 0 as well.
struct Grids {
  Grid target = {};
  std::vector<Grid> references = {};
  bool are_apart = true;  ///< whether the first id of reference pictures is another than the target's
  int64_t size() const;
};

/// The FLUX.1 transformer: blocks of two streams and of one, whose modulation is made of the time, of CLIP's embedding and of a guidance.
class Transformer : public mmdit::DoubleThenSingle {
 public:
  Transformer(const Config& config, const at::TensorOptions& options, mmdit::HeldLayers part = {});

  struct Conditions {
    at::Tensor pooled_BE;   ///< CLIP pooled embedding
    at::Tensor sigma_B;     ///< fp32 in [0, 1]
    at::Tensor guidance_B;  ///< fp32; ignored without guidance embedding
  };
  /// Makes the vector [B, D] of which all modulation is made, in the dtype of the pooled embedding. Needs the modulation from block 0 on.
  at::Tensor condition(const Conditions& conditions) const;
  using DoubleThenSingle::modulate;
  at::Tensor modulate(const Conditions& conditions) const { return modulate(condition(conditions)); }

  struct Inputs {
    at::Tensor latents_BIC;    ///< packed latents
    at::Tensor text_BTE;       ///< T5 embedding
    at::Tensor modulation_BM;  ///< the result of `modulate`
    Grids grids = {};          ///< the pictures of the I tokens
    at::Tensor hidden_BLD{};   ///< replaces latents and text where the blocks begin later: the result of `forward` of the blocks before
    at::Tensor added_BID{};    ///< added to the embedded latents; undefined: nothing
    at::Tensor prefix_BTD{};   ///< tokens before the embedded text; undefined: none
    /// Gives what a block's attention has besides, for a block that is held, counted from 0, double blocks first; empty: nothing.
    std::function<mmdit::Further(int64_t block)> further = {};
    /// Given the image tokens [B, I, D] behind a block, returns tokens that take their place, or undefined to leave them; empty: nothing.
    std::function<at::Tensor(int64_t block, const at::Tensor& image_BID)> after_block = {};
  };
  /// Computes the velocity [B, I, out_channels] of the target's tokens alone, in the dtype of the weights; where later blocks are to
  /// follow, the tokens [B, L, D] after the blocks that are held, text before image. Needs the body.
  at::Tensor forward(const Inputs& in);

  const Config& config() const { return config_; }

 private:
  Config config_;
};

}  // namespace burnish::models::flux
