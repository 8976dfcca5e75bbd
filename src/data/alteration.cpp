#include "data/alteration.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>

namespace burnish::data {

namespace {

using Color = std::array<float, 3>;

/// The gray of a colour, by ITU-R BT.601 with torchvision's digits.
float gray_value(const float* color) { return 0.2989F * color[0] + 0.587F * color[1] + 0.114F * color[2]; }

/// share · color + (1 - share) · other, within 0 and 1.
float blend(float color, float other, double share) {
  return std::clamp(static_cast<float>(share) * color + static_cast<float>(1 - share) * other, 0.0F, 1.0F);
}

/// Values [H, W, C] in [0, 1] around which everything is 0.
struct Values {
  const float* data;
  int64_t height, width, channels;

  const float* at(int64_t y, int64_t x) const {
    return y < 0 || x < 0 || y >= height || x >= width ? nullptr : data + (y * width + x) * channels;
  }
};

/// A pixel between four others. Colours count by how opaque they are.
void between(const Values& from, double y, double x, float* out) {
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  const bool has_alpha = from.channels == 4;
  std::fill_n(out, from.channels, 0.0F);
  for (auto row : {top, top + 1}) {
    for (auto column : {left, left + 1}) {
      const float* pixel = from.at(row, column);
      if (pixel == nullptr) continue;
      auto weight = static_cast<float>((1 - std::abs(y - static_cast<double>(row))) * (1 - std::abs(x - static_cast<double>(column))));
      if (has_alpha) weight *= pixel[3];
      for (int64_t c = 0; c < std::min<int64_t>(from.channels, 3); ++c) out[c] += weight * pixel[c];
      if (has_alpha) out[3] += weight;
    }
  }
  for (int64_t c = 0; has_alpha && out[3] > 0 && c < 3; ++c) out[c] /= out[3];
}

/// Turned to the left around the centre, between pixels by bilinear interpolation.
at::Tensor turned(const at::Tensor& values_HWC, double degrees) {
  auto out = at::empty_like(values_HWC);
  const Values from{values_HWC.const_data_ptr<float>(), values_HWC.size(0), values_HWC.size(1), values_HWC.size(2)};
  const double angle = degrees * std::numbers::pi / 180, cosine = std::cos(angle), sine = std::sin(angle);
  const double middle_y = static_cast<double>(from.height - 1) / 2, middle_x = static_cast<double>(from.width - 1) / 2;
  auto* to = out.mutable_data_ptr<float>();
  for (int64_t row = 0; row < from.height; ++row) {
    for (int64_t column = 0; column < from.width; ++column, to += from.channels) {
      const double y = static_cast<double>(row) - middle_y, x = static_cast<double>(column) - middle_x;
      between(from, sine * x + cosine * y + middle_y, cosine * x - sine * y + middle_x, to);
    }
  }
  return out;
}

/// The colour whose hue is turned by a share of the circle; saturation and value stay.
Color with_hue(const float* color, double turn) {
  const auto [least, most] = std::minmax({color[0], color[1], color[2]});
  const float range = most - least;
  if (range == 0) return {color[0], color[1], color[2]};
  const float red = (most - color[0]) / range, green = (most - color[1]) / range, blue = (most - color[2]) / range;
  const float sixths = most == color[0] ? blue - green : most == color[1] ? 2 + red - blue : 4 + green - red;
  const float hue = std::fmod(sixths / 6 + 1, 1.0F) + static_cast<float>(turn);
  const float place = (hue - std::floor(hue)) * 6, saturation = range / most;
  const float sector = std::floor(place), within = place - sector;
  const float low = most * (1 - saturation), falling = most * (1 - saturation * within), rising = most * (1 - saturation * (1 - within));
  switch (static_cast<int>(sector) % 6) {
    case 0: return {most, rising, low};
    case 1: return {falling, most, low};
    case 2: return {low, most, rising};
    case 3: return {low, falling, most};
    case 4: return {rising, low, most};
    default: return {most, low, falling};
  }
}

template <class Change>
void change_colors(at::Tensor& values_HWC, const Change& change) {
  const auto channels = values_HWC.size(2);
  auto* pixel = values_HWC.mutable_data_ptr<float>();
  for (auto count = values_HWC.size(0) * values_HWC.size(1); count > 0; --count, pixel += channels) change(pixel);
}

void blend_colors(at::Tensor& values_HWC, double share, const std::function<float(const float*)>& other_of) {
  change_colors(values_HWC, [&](float* color) {
    const float other = other_of(color);
    for (int c = 0; c < 3; ++c) color[c] = blend(color[c], other, share);
  });
}

float mean_gray(at::Tensor& values_HWC) {
  double sum = 0;
  change_colors(values_HWC, [&](const float* color) { sum += gray_value(color); });
  return static_cast<float>(sum / static_cast<double>(values_HWC.size(0) * values_HWC.size(1)));
}

void recolor(at::Tensor& values, const Alteration& alteration) {
  if (alteration.brightness != 1) blend_colors(values, alteration.brightness, [](const float*) { return 0.0F; });
  if (alteration.contrast != 1) blend_colors(values, alteration.contrast, [mean = mean_gray(values)](const float*) { return mean; });
  if (alteration.saturation != 1) blend_colors(values, alteration.saturation, gray_value);
  if (alteration.hue != 0) change_colors(values, [&](float* color) { std::ranges::copy(with_hue(color, alteration.hue), color); });
}

}  // namespace

at::Tensor altered(const at::Tensor& pixels_HWC, const Alteration& alteration) {
  if (alteration.is_none()) return pixels_HWC;
  auto values = pixels_HWC.contiguous().to(at::kFloat).div_(255);
  if (alteration.angle != 0) values = turned(values, alteration.angle);
  if (values.size(2) > 1) recolor(values, alteration);
  return values.mul_(255).round_().clamp_(0, 255).to(at::kByte);
}

std::string spelled(const Alteration& alteration) {
  std::string text;
  const auto add = [&](const char* name, double value, double none) {
    if (value != none) text += fmt::format(" {} {}", name, value);
  };
  add("turned by", alteration.angle, 0);
  add("brightness", alteration.brightness, 1);
  add("contrast", alteration.contrast, 1);
  add("saturation", alteration.saturation, 1);
  add("hue", alteration.hue, 0);
  return text;
}

}  // namespace burnish::data
