#include "report/strip.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "data/clip.h"
#include "data/image.h"
#include "data/resize.h"

namespace burnish::report {

namespace {

constexpr int64_t kMostFrames = 6;
constexpr int64_t kHeight = 96, kMostWidth = 288;  // of a frame, in pixels

/// Times in the middle of frames that follow each other at one rate; of frames without times, their numbers.
std::vector<data::Fraction> times_of(const data::ClipLook& look) {
  std::vector<data::Fraction> times;
  for (auto k : frames_in_strip(look.num_frames)) {
    if (look.duration.num == 0) times.push_back({k, 1});
    else times.push_back({(2 * k + 1) * look.duration.num, 2 * look.num_frames * look.duration.den});
  }
  return times;
}

/// A frame's size in the strip; none is scaled up.
data::Size size_in_strip(const data::Size& size) {
  auto height = std::max<int64_t>(1, std::min({size.height, kHeight, kMostWidth * size.height / size.width}));
  return {height, std::clamp<int64_t>(height * size.width / size.height, 1, kMostWidth)};
}

}  // namespace

std::vector<int64_t> frames_in_strip(int64_t num_frames) {
  std::vector<int64_t> numbers;
  const auto num_shown = std::min(kMostFrames, num_frames);
  for (int64_t i = 0; i < num_shown; ++i) numbers.push_back(i * (num_frames - 1) / std::max<int64_t>(1, num_shown - 1));
  return numbers;
}

std::string strip_of(const std::filesystem::path& clip) {
  const auto look = data::look_at_clip(clip);
  const auto size = size_in_strip(look.size);
  std::vector<at::Tensor> frames;
  for (const auto& frame : data::decode_frames(clip, times_of(look)).unbind()) frames.push_back(data::resize_and_crop(frame, size));
  constexpr float kQuality = 80;
  return data::encode_webp(at::cat(frames, 1), kQuality);
}

}  // namespace burnish::report
