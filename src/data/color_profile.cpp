#include "data/color_profile.h"

#include <ATen/ops/empty.h>
#include <lcms2.h>

#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

namespace burnish::data {

namespace {

using Profile = std::unique_ptr<void, decltype(&cmsCloseProfile)>;
using Transform = std::unique_ptr<void, decltype(&cmsDeleteTransform)>;

Profile open_profile(const std::string& icc) {
  auto* profile = icc.empty() ? nullptr : cmsOpenProfileFromMem(icc.data(), static_cast<cmsUInt32Number>(icc.size()));
  return {profile, cmsCloseProfile};
}

/// What an opened profile is of: "RGB ", "GRAY", "CMYK" (ICC.1, 7.2: data colour space). Little CMS has it as an enum, which a damaged file
/// may give values that it has not.
std::string_view space_of(const std::string& icc) { return std::string_view(icc).substr(16, 4); }

/// Null where lcms cannot make one of such a profile.
Transform to_srgb(const Profile& from, cmsUInt32Number format) {
  Profile srgb(cmsCreate_sRGBProfile(), cmsCloseProfile);
  return {cmsCreateTransform(from.get(), format, srgb.get(), TYPE_RGB_8, INTENT_PERCEPTUAL, 0), cmsDeleteTransform};
}

/// Whether none of 6 by 6 by 6 colours moves by more than one step.
bool moves_nothing(const Transform& transform) {
  std::vector<uint8_t> colors;
  for (int i = 0; i < 216; ++i) {
    for (int step : {i / 36, i / 6 % 6, i % 6}) colors.push_back(static_cast<uint8_t>(51 * step));
  }
  std::vector<uint8_t> moved(colors.size());
  cmsDoTransform(transform.get(), colors.data(), moved.data(), 216);
  for (size_t i = 0; i < colors.size(); ++i) {
    if (std::abs(colors[i] - moved[i]) > 1) return false;
  }
  return true;
}

}  // namespace

ToSrgb::ToSrgb(const std::string& icc_profile) {
  auto profile = open_profile(icc_profile);
  if (!profile) return;
  of_gray_ = space_of(icc_profile) == "GRAY";
  if (!of_gray_ && space_of(icc_profile) != "RGB ") return;
  auto transform = to_srgb(profile, of_gray_ ? TYPE_GRAY_8 : TYPE_RGB_8);
  if (transform && (of_gray_ || !moves_nothing(transform))) transform_ = std::move(transform);
}

void ToSrgb::convert(uint8_t* row_W3, int64_t width) {
  if (!transform_) return;
  grays_.resize(static_cast<size_t>(of_gray_ ? width : 0));
  for (size_t x = 0; x < grays_.size(); ++x) grays_[x] = row_W3[x * 3];
  cmsDoTransform(transform_.get(), of_gray_ ? grays_.data() : row_W3, row_W3, static_cast<cmsUInt32Number>(width));
}

void convert_to_srgb(at::Tensor& pixels_HW3, const std::string& icc_profile) {
  ToSrgb to_srgb(icc_profile);
  const auto width = pixels_HW3.size(1);
  for (int64_t y = 0; y < pixels_HW3.size(0); ++y) to_srgb.convert(pixels_HW3.mutable_data_ptr<uint8_t>() + y * width * 3, width);
}

at::Tensor inks_to_srgb(const at::Tensor& pixels_HW4, const std::string& icc_profile) {
  auto profile = open_profile(icc_profile);
  if (!profile || space_of(icc_profile) != "CMYK") return {};
  auto transform = to_srgb(profile, TYPE_CMYK_8);
  if (!transform) return {};
  const auto height = pixels_HW4.size(0), width = pixels_HW4.size(1);
  auto out_HW3 = at::empty({height, width, 3}, pixels_HW4.options());
  for (int64_t y = 0; y < height; ++y)
    cmsDoTransform(transform.get(), pixels_HW4.const_data_ptr<uint8_t>() + y * width * 4,
                   out_HW3.mutable_data_ptr<uint8_t>() + y * width * 3, static_cast<cmsUInt32Number>(width));
  return out_HW3;
}

}  // namespace burnish::data
