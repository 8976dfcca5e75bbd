#pragma once
#include <ATen/core/Tensor.h>

#include "data/size.h"

namespace burnish::masking {

// Shape letters: H height and W width of a picture, P texts, S side of the scores in pixels.

/// Says how scores become a mask. Defaults are OneTrainer's.
struct MaskRule {
  double threshold = 0.3;      ///< how likely what is named has to be at a pixel, 0 to 1
  int64_t smooth_pixels = 5;   ///< each score becomes the mean of those up to so many pixels of the model's square away
  int64_t expand_pixels = 10;  ///< the mask grows by so many pixels of the picture in all directions
};

/// Makes a mask of the pixels that are likely to show what the texts name, on average: logits [P, S, S] -> uint8 [H, W, 1], 255 there and
/// 0 elsewhere (OneTrainer: modules/module/ClipSegModel.py).
at::Tensor mask_of(const at::Tensor& scores_PSS, const data::Size& size, const MaskRule& rule);

/// The effect of a new mask on the one that is there.
enum class Join { replace, add, subtract };
/// Joins masks, uint8 [H, W, 1]. Where there is none, `was` is undefined: nothing is there to add to, and all of the picture counts that is
/// subtracted from.
at::Tensor joined(const at::Tensor& was_HW1, const at::Tensor& fresh_HW1, Join join);

}  // namespace burnish::masking
