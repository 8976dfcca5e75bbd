#include "models/families/minimax_h3/references.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/input_error.h"
#include "io/files.h"
#include "io/json.h"
#include "models/parts/picture_texts.h"
#include "models/text/resample.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr double kSide = 32;
/// The released sizes of pictures and clips.
constexpr double kShortSideOfPicture = 2048, kShortSideOfClip = 768, kMostOfClip = 768.0 * 1344;
/// Frames of a clip that pass from one that is shown to the next, and frames that are shown in a second.
constexpr int64_t kFramesToNext = 12;
constexpr double kShownASecond = 2;

int64_t nearest_side(double length) { return std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(length / kSide))) * 32; }

at::Tensor scaled(const at::Tensor& image_3HW, const Extent& to) {
  if (image_3HW.size(1) == to.height && image_3HW.size(2) == to.width) return image_3HW;
  return text::from_levels(text::resampled(text::to_levels(image_3HW), to.height, to.width, text::Filter::lanczos));
}

}  // namespace

Extent shown_extent(const Extent& given, int64_t area) {
  if (given.height == 0) return given;
  const auto height = static_cast<double>(given.height), width = static_cast<double>(given.width);
  if (area > 0) {
    const auto sides = scaled_to(given, area);
    return {given.frames, sides.height, sides.width};
  }
  const auto shorter = std::min(height, width);
  const auto scale =
      given.frames == 1 ? kShortSideOfPicture / shorter : std::min(kShortSideOfClip / shorter, std::sqrt(kMostOfClip / (width * height)));
  return {given.frames, nearest_side(height * scale), nearest_side(width * scale)};
}

at::Tensor shown(const at::Tensor& pixels, int64_t area) {
  const bool is_clip = pixels.dim() == 4;
  const auto to = shown_extent({is_clip ? pixels.size(1) : 1, pixels.size(-2), pixels.size(-1)}, area);
  if (!is_clip) return scaled(pixels, to);
  std::vector<at::Tensor> frames;
  for (const auto& frame : pixels.unbind(1)) frames.push_back(scaled(frame, to));
  return at::stack(frames, 1);
}

std::vector<int64_t> frames_in_text(int64_t num_frames) {
  if (num_frames <= kFramesToNext)
    data_error("models",
               "a reference is a clip of {} frames, and MiniMax-H3's text encoder is shown two frames a second, two at least; "
               "give one of 22 frames or more, or a picture",
               num_frames);
  std::vector<int64_t> numbers;
  for (int64_t number = 0; number < num_frames; number += kFramesToNext) numbers.push_back(number);
  return numbers;
}

std::vector<at::Tensor> seen_reference(bool sounds, int64_t num_shown, std::vector<at::Tensor> seen) {
  seen.insert(seen.begin(), at::zeros({sounds ? 1 : 0, num_shown}));
  return seen;
}

ToldReferences told_references(const std::vector<at::Tensor>& list) {
  ToldReferences told;
  int64_t num_pictures = 0, num_clips = 0, num_sounds = 0;
  for (auto next = list.begin(); next != list.end();) {
    const bool sounds = next->size(0) > 0;
    const auto num_shown = next->size(1);
    ++next;
    if (sounds) told.parts.push_back(fmt::format("<Audio {}>: ", ++num_sounds));
    if (num_shown == 1) {
      told.parts.push_back(fmt::format("<Picture {}>: {}", ++num_pictures, kPictureInText));
      told.seen.push_back(*next++);
    } else if (num_shown > 1) {
      told.parts.push_back(fmt::format("<Video {}>: ", ++num_clips));
      for (int64_t first = 0; first < num_shown; first += 2) {
        const auto sum = static_cast<double>(first + std::min(first + 1, num_shown - 1)) / kShownASecond;
        told.parts.push_back(fmt::format("<{:.1f} seconds>{}", sum / 2, kFramesInText));
        told.seen.push_back(*next++);
      }
    }
  }
  return told;
}

std::pair<int64_t, int64_t> shown_sides(int64_t num_frames, int64_t height, int64_t width, const text::Patching& p,
                                        const text::PixelRule& rule) {
  const auto cell = static_cast<double>(p.cell()), count = static_cast<double>(num_frames);
  auto h = static_cast<double>(height), w = static_cast<double>(width);
  if (h < cell || w < cell) {
    const auto scale = std::max(cell / h, cell / w);
    h = std::trunc(h * scale);
    w = std::trunc(w * scale);
  }
  auto cells = [&](double number) { return static_cast<int64_t>(number) * p.cell(); };
  const auto rows = cells(std::nearbyint(h / cell)), columns = cells(std::nearbyint(w / cell));
  const auto all = static_cast<int64_t>(std::nearbyint(count / static_cast<double>(p.num_frames))) * p.num_frames * rows * columns;
  if (all > rule.most) {
    const auto beta = std::sqrt(count * h * w / static_cast<double>(rule.most));
    auto down = [&](double side) { return cells(std::max(1.0, std::floor(side / beta / cell))); };
    return {down(h), down(w)};
  }
  if (all < rule.least) {
    const auto beta = std::sqrt(static_cast<double>(rule.least) / (count * h * w));
    auto up = [&](double side) { return cells(std::ceil(side * beta / cell)); };
    return {up(h), up(w)};
  }
  return {rows, columns};
}

text::PixelRule find_clip_rule(const ModelFiles& files, const std::string& chosen) {
  // transformers 5 writes all rules of a processor into one file.
  const std::string of_clips = "video_preprocessor_config.json", of_all = "processor_config.json", part = "video_processor";
  for (const auto& name : {of_clips, of_all}) {
    const auto path = chosen.empty() ? files.in_pipeline("processor/" + name) : std::filesystem::path(chosen) / name;
    if (!path || !io::is_there(*path)) continue;
    const auto json = io::read_json(*path);
    if (name == of_clips) return text::pixel_rule(json);
    if (json.is_object() && json.contains(part)) return text::pixel_rule(json[part]);
  }
  auto rule = text::qwen3_vl_pixels();
  rule.least = 4096;
  rule.most = 25165824;
  return rule;
}

}  // namespace burnish::models::minimax_h3
