#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace burnish::data {

/// Turns the colours of a picture, uint8 [H, W, 3], from those of an ICC profile into sRGB, in place, by the perceptual intent. A profile
/// of sRGB itself (no colour moves by more than 1) changes nothing, nor does one that is damaged or of another number of channels; one of
/// gray is for pictures whose channels are equal.
void convert_to_srgb(at::Tensor& pixels_HW3, const std::string& icc_profile);

/// The same for inks, uint8 [H, W, 4] with 255 for all of an ink, as a new picture [H, W, 3]; undefined where the profile is not of CMYK.
at::Tensor inks_to_srgb(const at::Tensor& pixels_HW4, const std::string& icc_profile);

}  // namespace burnish::data
