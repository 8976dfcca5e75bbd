#include "data/clip_survey.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace burnish::data {

namespace {

constexpr int64_t kParts = 16;
constexpr double kCut = 24, kTimes = 4;

using Grays = std::array<double, kParts * kParts>;

/// The mean gray of each part of a frame.
Grays grays_of(const std::vector<uint8_t>& pixels_HW3, int64_t height, int64_t width) {
  Grays sums{}, counts{};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const auto* pixel = pixels_HW3.data() + (y * width + x) * 3;
      auto part = static_cast<size_t>(y * kParts / height * kParts + x * kParts / width);
      sums[part] += (pixel[0] + pixel[1] + pixel[2]) / 3.0;
      ++counts[part];
    }
  }
  for (size_t i = 0; i < sums.size(); ++i) sums[i] /= std::max(counts[i], 1.0);
  return sums;
}

double difference(const Grays& a, const Grays& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / static_cast<double>(a.size());
}

/// Which frames are the first ones behind a cut, by how much each frame differs from the one before it.
std::vector<size_t> cuts_in(const std::vector<double>& differences) {
  std::vector<size_t> cuts;
  auto at = [&](size_t k) { return k < differences.size() ? differences[k] : 0; };
  for (size_t k = 1; k < differences.size(); ++k) {
    if (differences[k] >= kCut && differences[k] >= kTimes * std::max(at(k - 1), at(k + 1))) cuts.push_back(k);
  }
  return cuts;
}

}  // namespace

ClipSurvey survey_clip(const std::string& file) {
  ClipSurvey found{.file = file, .look = look_at_clip(file)};
  auto clip = open_clip(file);
  std::vector<double> differences, begins;
  std::vector<uint8_t> pixels(static_cast<size_t>(clip->height() * clip->width() * 3));
  Grays before{};
  const auto tick = static_cast<double>(clip->tick().num) / static_cast<double>(clip->tick().den);
  double begin = 0;
  while (clip->next()) {
    clip->write_pixels(pixels.data());
    auto grays = grays_of(pixels, clip->height(), clip->width());
    differences.push_back(differences.empty() ? 0 : difference(grays, before));
    begins.push_back(std::exchange(begin, static_cast<double>(clip->end()) * tick));
    before = grays;
  }
  for (auto k : cuts_in(differences)) found.cuts.push_back(begins[k]);
  return found;
}

}  // namespace burnish::data
