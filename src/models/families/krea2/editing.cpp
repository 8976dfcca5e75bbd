#include "models/families/krea2/editing.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "models/text/resample.h"

namespace burnish::models::krea2 {

namespace {

struct FormWord {
  const char* word;
  Form form;
};
constexpr std::array<FormWord, 2> kForms{{{"frames", Form::frames}, {"overlaid", Form::overlaid}}};

Extent extent_of(const at::Tensor& image_3HW) { return {.height = image_3HW.size(1), .width = image_3HW.size(2)}; }

/// The factor by which a picture becomes no larger than an area.
double shrinking(const Extent& picture, int64_t area) {
  return std::min(1.0, std::sqrt(static_cast<double>(area) / (static_cast<double>(picture.height) * static_cast<double>(picture.width))));
}

at::Tensor scaled(const at::Tensor& image_3HW, const Extent& size, text::Filter filter) {
  return text::resampled(text::to_levels(image_3HW), size.height, size.width, filter);
}

}  // namespace

Form form_of(const std::string& word) {
  return std::ranges::find_if(kForms, [&](const FormWord& known) { return word == known.word; })->form;
}

std::vector<std::string> forms() {
  std::vector<std::string> words;
  for (const auto& [word, form] : kForms) words.emplace_back(word);
  return words;
}

Extent fitted(const Extent& picture, int64_t area) {
  constexpr double kStep = 16;
  const auto by = shrinking(picture, area);
  auto side = [&](int64_t length) {
    return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(static_cast<double>(length) * by / kStep))) *
           static_cast<int64_t>(kStep);
  };
  return {.height = side(picture.height), .width = side(picture.width)};
}

at::Tensor fitted(const at::Tensor& image_3HW, int64_t area) {
  return text::from_levels(scaled(image_3HW, fitted(extent_of(image_3HW), area), text::Filter::lanczos));
}

at::Tensor levels_to_see(const at::Tensor& image_3HW, Form form) {
  constexpr int64_t kLeastSide = 28;
  const auto given = extent_of(image_3HW);
  if (form == Form::overlaid) return text::to_levels(image_3HW);
  const auto by = shrinking(given, kSeenArea);
  auto side = [&](int64_t length) { return std::max(kLeastSide, static_cast<int64_t>(std::nearbyint(static_cast<double>(length) * by))); };
  return scaled(image_3HW, {.height = side(given.height), .width = side(given.width)}, text::Filter::bicubic);
}

std::string told_pictures(Form form, size_t count) {
  if (form == Form::overlaid) return std::string(kPictureInText) + "\n";
  std::string told;
  for (size_t i = 1; i <= count; ++i) told += fmt::format("Picture {}: {}", i, kPictureInText);
  return told;
}

}  // namespace burnish::models::krea2
