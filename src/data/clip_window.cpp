#include "data/clip_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/input_error.h"

namespace burnish::data {

namespace {

/// Frames without times are taken one by one, at whatever rate they are asked for.
bool has_times(const ClipLook& clip) { return clip.duration.num > 0; }

/// The frames a second of a clip.
Fraction own_rate(const ClipLook& clip) {
  Fraction rate{clip.num_frames * clip.duration.den, clip.duration.num};
  auto common = std::gcd(rate.num, rate.den);
  return {rate.num / common, rate.den / common};
}

/// A clip of 24000/1001 frames a second has the frames of one of 24.
constexpr double kNearlyAsFast = 0.95;

/// Tells whether frames would be shown twice at the rule's rate. Of an animation whose frames are mostly as short, some are meant to be
/// seen for longer, as programs write frames that are equal, and are taken for as long.
bool is_slow(const ClipRule& rule, const ClipLook& clip) {
  const bool holds_some = clip.usual_frame.num > 0 && number_of(clip.usual_frame) * number_of(rule.rate) * kNearlyAsFast <= 1;
  return has_times(clip) && !holds_some && number_of(own_rate(clip)) < kNearlyAsFast * number_of(rule.rate);
}

/// The rate at which a clip's frames are taken.
Fraction taken_rate(const ClipRule& rule, const ClipLook& clip, const std::string& file) {
  if (!has_times(clip)) return {1, 1};
  auto own = own_rate(clip);
  if (number_of(own) >= number_of(rule.rate)) return rule.rate;
  if (number_of(own) >= kNearlyAsFast * number_of(rule.rate)) return own;
  if (!is_slow(rule, clip)) return rule.rate;
  if (rule.may_be_slower) return own;
  data_error("data",
             "{} has {:.4g} frames a second, and {:.4g} are asked for, so that frames would be shown twice; convert the clip, or ask "
             "for fewer with --frame_rate if the model takes them",
             file, number_of(own), number_of(rule.rate));
}

/// The most frames of at most `most` that a model takes; 0 where it takes none. One frame is a still, which models of clips take too.
int64_t on_grid(const ClipRule& rule, int64_t most) {
  if (most == 1) return 1;
  return most < rule.first_frames ? 0 : rule.first_frames + (most - rule.first_frames) / rule.step * rule.step;
}

/// The frames that a clip has at a rate: those whose time comes before its end, by more than a tenth of a frame, which is what containers
/// round.
int64_t count_at(const Fraction& rate, const ClipLook& clip) {
  if (!has_times(clip)) return clip.num_frames;
  constexpr double kRounded = 0.9;
  return std::max<int64_t>(1, static_cast<int64_t>(number_of(clip.duration) * number_of(rate) + kRounded));
}

}  // namespace

double number_of(const Fraction& fraction) { return static_cast<double>(fraction.num) / static_cast<double>(fraction.den); }

Fraction as_fraction(double number) {
  constexpr int64_t kParts = 1000;
  auto parts = static_cast<int64_t>(std::llround(number * static_cast<double>(kParts)));
  auto common = std::gcd(parts, kParts);
  return {parts / common, kParts / common};
}

void take_rate_of_model(ClipRule& rule, double rate) {
  if (rule.rate.num > 0) return;
  rule.rate = as_fraction(rate);
  rule.may_be_slower = true;
}

std::vector<Fraction> ClipWindow::times() const {
  std::vector<Fraction> times;
  for (int64_t k = first; k < first + count; ++k) times.push_back({k * rate.den, rate.num});
  return times;
}

void check_rule(const ClipRule& rule) {
  if (rule.step == 0 || rule.num_frames == 0) return;
  auto below = on_grid(rule, rule.num_frames);
  if (below == rule.num_frames) return;
  if (below == 0) config_error("data", "num_frames is {}, and this model takes {} frames at least", rule.num_frames, rule.first_frames);
  config_error("data", "num_frames is {}, and clips of this model have {} or {} frames ({} and a multiple of {}); give one of them",
               rule.num_frames, below, below + rule.step, rule.first_frames, rule.step);
}

std::vector<ClipWindow> windows_of(const ClipRule& rule, const ClipLook& clip, const std::string& file) {
  using Extraction = ClipRule::Extraction;
  const auto rate = taken_rate(rule, clip, file);
  const auto length = count_at(rate, clip);
  const bool is_whole = rule.extraction == Extraction::whole && rule.num_frames == 0;
  const auto count = on_grid(rule, is_whole ? length : std::min(length, rule.num_frames == 0 ? kUsualFrames : rule.num_frames));
  if (count == 0) data_error("data", "{} has {} frames at this rate, and the model takes {} at least", file, length, rule.first_frames);
  const auto room = length - count;
  std::vector<int64_t> starts;
  switch (rule.extraction) {
    case Extraction::head:
    case Extraction::whole: starts = {0}; break;
    case Extraction::middle: starts = {room / 2}; break;
    case Extraction::chunks:
      for (int64_t start = 0; start <= room; start += count) starts.push_back(start);
      break;
    case Extraction::slide:
      for (int64_t start = 0; start <= room; start += rule.stride) starts.push_back(start);
      break;
    case Extraction::uniform:
      for (int64_t i = 0; i < rule.num_windows; ++i) starts.push_back(rule.num_windows == 1 ? 0 : i * room / (rule.num_windows - 1));
      starts.erase(std::ranges::unique(starts).begin(), starts.end());
      break;
  }
  std::vector<ClipWindow> windows;
  for (auto start : starts) windows.push_back({start, count, rate});
  return windows;
}

bool is_slower(const ClipRule& rule, const ClipLook& clip) { return rule.may_be_slower && is_slow(rule, clip); }

}  // namespace burnish::data
