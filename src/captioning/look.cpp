#include "captioning/look.h"

#include <algorithm>

#include "data/clip.h"
#include "data/image.h"

namespace burnish::captioning {

namespace {

constexpr int64_t kLeastFrames = 4;
constexpr double kUsualRate = 24;

double seconds(const data::Fraction& time) { return static_cast<double>(time.num) / static_cast<double>(time.den); }

Shown look_at_frames(const std::filesystem::path& file, const data::ClipLook& clip, const FrameRule& rule) {
  const bool has_times = clip.duration.num > 0;
  const auto& [length, frame] = std::pair(clip.duration, clip.usual_frame);
  const auto duration = has_times ? seconds(length) : static_cast<double>(clip.num_frames) / kUsualRate;
  const auto wanted = std::clamp(static_cast<int64_t>(duration * rule.rate), std::min(kLeastFrames, rule.most), rule.most);
  const auto count = std::min(wanted, clip.num_frames);
  const auto gaps = std::max<int64_t>(count - 1, 1);
  std::vector<data::Fraction> times;
  Shown shown;
  for (int64_t i = 0; i < count; ++i) {
    // Frames without times are known by their numbers.
    auto time = has_times ? data::Fraction{(length.num * frame.den - frame.num * length.den) * i, length.den * frame.den * gaps}
                          : data::Fraction{(2 * i * (clip.num_frames - 1) + gaps) / (2 * gaps), 1};
    times.push_back(time);
    shown.times.push_back(has_times ? seconds(time) : seconds(time) / kUsualRate);
  }
  shown.frames_FHW3 = data::decode_frames(file, times);
  return shown;
}

}  // namespace

Shown look(const std::filesystem::path& file, const FrameRule& rule) {
  if (data::may_be_clip(file) || data::is_clip_alone(file)) {
    auto clip = data::look_at_clip(file);
    if (clip.num_frames > 1 && rule.most > 1) return look_at_frames(file, clip, rule);
    if (data::is_clip_alone(file)) return {.frames_FHW3 = data::decode_frames(file, {{0, 1}})};
  }
  return {.frames_FHW3 = data::decode_image(file).unsqueeze(0)};
}

}  // namespace burnish::captioning
