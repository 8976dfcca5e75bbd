#pragma once
#include <ATen/core/Tensor.h>

#include "models/text/patches.h"
#include "models/text/resample.h"

namespace burnish::models {

/// Says what of a picture a tower is shown: its shorter side scaled to so many pixels by one of Pillow's filters, of that a square out of
/// the middle, normalised by the colours of the rule.
struct SquareRule {
  int64_t scaled = 224, side = 224;
  text::PixelRule colours = {};
  text::Filter filter = text::Filter::bicubic;
  bool is_rounded = true;  ///< whether scaled pixels are bytes, as Pillow makes them, or numbers between, as torchvision makes them
};
/// Makes that of a picture, uint8 [H, W, 3] -> fp32 [3, S, S] (transformers: CLIPImageProcessor, BitImageProcessor).
at::Tensor square_of(const at::Tensor& picture_HW3, const SquareRule& rule);
/// Makes the whole picture fit the square, each side scaled for itself (transformers: SiglipImageProcessor,
/// DINOv3ViTImageProcessor).
at::Tensor squeezed(const at::Tensor& picture_HW3, const SquareRule& rule);

}  // namespace burnish::models
