#pragma once
#include <ATen/core/Tensor.h>

#include "models/text/patches.h"

namespace burnish::judging {

/// Says what of a picture a tower is shown: its shorter side scaled to so many pixels by Pillow's bicubic filter, of that a square out of
/// the middle, normalised by the colours of the rule.
struct SquareRule {
  int64_t scaled = 224, side = 224;
  models::text::PixelRule colours = {};
};
/// Makes that of a picture, uint8 [H, W, 3] -> fp32 [3, S, S] (transformers: CLIPImageProcessor, BitImageProcessor).
at::Tensor square_of(const at::Tensor& picture_HW3, const SquareRule& rule);

}  // namespace burnish::judging
