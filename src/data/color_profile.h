#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace burnish::data {

/// Turns the colours of an ICC profile into sRGB, by the perceptual intent. A profile of sRGB itself (no colour moves by more than 1)
/// changes nothing, nor does one that is damaged or of another number of channels; one of gray is for pictures whose channels are equal.
class ToSrgb {
 public:
  explicit ToSrgb(const std::string& icc_profile);
  /// A row of a picture, [W, 3], in place.
  void convert(uint8_t* row_W3, int64_t width);

 private:
  std::shared_ptr<void> transform_;  ///< transform of Little CMS; null where nothing changes
  bool of_gray_ = false;
  std::vector<uint8_t> grays_;
};

/// Converts a whole picture, uint8 [H, W, 3].
void convert_to_srgb(at::Tensor& pixels_HW3, const std::string& icc_profile);

/// Inks to sRGB: of uint8 [H, W, 4] with 255 for all of an ink a new picture [H, W, 3]; undefined where the profile is not of CMYK.
at::Tensor inks_to_srgb(const at::Tensor& pixels_HW4, const std::string& icc_profile);

}  // namespace burnish::data
