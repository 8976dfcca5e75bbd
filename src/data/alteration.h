#pragma once
#include <ATen/core/Tensor.h>

#include <compare>
#include <string>

namespace burnish::data {

/// What becomes of a picture once it is cut out and mirrored, in this order, each as torchvision's functions of these names do it
/// (transforms/functional). Between them values are fp32; they are rounded to 8 bits once, at the end.
struct Alteration {
  double angle = 0;       ///< degrees to the left, around the centre; what comes from outside of the picture is black, and without opacity
  double brightness = 1;  ///< factor on all colours
  double contrast = 1;    ///< factor on their distance from the picture's mean gray
  double saturation = 1;  ///< factor on their distance from each pixel's gray
  double hue = 0;         ///< turns of the circle of hues, from -0.5 to 0.5
  auto operator<=>(const Alteration&) const = default;

  bool is_none() const { return *this == Alteration{}; }
};

/// Returns uint8 [H, W, C] altered. Of four channels the last is how opaque a pixel is; a single one is a mask, which is turned alone.
at::Tensor altered(const at::Tensor& pixels_HWC, const Alteration& alteration);

/// What it changes, as names of content have it: " turned by 5 brightness 1.1"; "" for nothing.
std::string spelled(const Alteration& alteration);

}  // namespace burnish::data
