#include "data/clip.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/rot90.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/error.h"
#include "base/input_error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "data/animation.h"
#include "data/archived_files.h"
#include "data/clip_library.h"
#include "data/codecs.h"
#include "data/frame_folder.h"
#include "data/image.h"
#include "io/files.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

constexpr std::array<std::string_view, 9> kVideos{".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".ts", ".mpg", ".mpeg"};

std::string small_ending(const fs::path& path) {
  auto ending = path.extension().string();
  std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return std::tolower(c); });
  return ending;
}

/// A picture as a clip of one frame, which is shown for a second.
class StillFrame : public ClipFrames {
 public:
  explicit StillFrame(const UprightPicture& picture) : pixels_HW3_(picture.pixels_HW3), alpha_HW1_(picture.alpha_HW1) {}
  bool next() override { return !std::exchange(is_past_, true); }
  Fraction tick() const override { return {1, 1}; }
  int64_t end() const override { return 1; }
  int64_t height() const override { return pixels_HW3_.size(0); }
  int64_t width() const override { return pixels_HW3_.size(1); }
  void write_pixels(uint8_t* to_HW3) override { std::copy_n(pixels_HW3_.const_data_ptr<uint8_t>(), pixels_HW3_.numel(), to_HW3); }
  void write_alpha(uint8_t* to_HW) override { std::copy_n(alpha_HW1_.const_data_ptr<uint8_t>(), alpha_HW1_.numel(), to_HW); }

 private:
  at::Tensor pixels_HW3_, alpha_HW1_;
  bool is_past_ = false;
};

/// The most pixels that all frames of an animation have together, and those of a video. A decoder takes half a minute for the first in a
/// file of some kilobytes, and an hour for the second, which are five hours at 1920 by 1080.
constexpr int64_t kMostOfAnimation = int64_t{1} << 32, kMostOfVideo = int64_t{1} << 40;

/// A clip with the bytes that it is read from, if it is read from memory, and with a bound on the work that it makes.
class HeldFrames : public ClipFrames {
 public:
  HeldFrames(std::string bytes, const std::string& file) : bytes_(std::move(bytes)), most_(kMostOfAnimation) {
    frames_ = open_animation(bytes_, file);
    if (!frames_) frames_ = std::make_unique<StillFrame>(decode_with_alpha(bytes_, file));
  }
  HeldFrames(std::string bytes, OpenClip* open) : bytes_(std::move(bytes)), frames_(open("", bytes_)), most_(kMostOfVideo) {}
  HeldFrames(const char* file, OpenClip* open) : frames_(open(file, {})), most_(kMostOfVideo) {}
  bool next() override {
    if (!frames_->next()) return false;
    num_pixels_ += height() * width();
    if (num_pixels_ > most_)
      throw std::runtime_error(
          fmt::format("its frames have more than {:.3g} billion pixels together, which takes too long each time that "
                      "it is read; cut it into shorter clips, or scale it down",
                      static_cast<double>(most_) / 1e9));
    return true;
  }
  bool skip_to(const Fraction& time) override { return frames_->skip_to(time); }
  Fraction tick() const override { return frames_->tick(); }
  int64_t end() const override { return frames_->end(); }
  int64_t height() const override { return frames_->height(); }
  int64_t width() const override { return frames_->width(); }
  int quarter_turns() const override { return frames_->quarter_turns(); }
  bool is_mirrored() const override { return frames_->is_mirrored(); }
  void write_pixels(uint8_t* to_HW3) override { frames_->write_pixels(to_HW3); }
  void write_alpha(uint8_t* to_HW) override { frames_->write_alpha(to_HW); }
  bool is_interlaced() const override { return frames_->is_interlaced(); }
  std::string damage() const override { return frames_->damage(); }

 private:
  std::string bytes_;
  std::unique_ptr<ClipFrames> frames_;
  int64_t most_, num_pixels_ = 0;
};

/// The frame that a clip is at, upright: in `buffer`, where it need not be turned.
at::Tensor upright_frame(ClipFrames& clip, bool of_alpha, at::Tensor& buffer) {
  if (!buffer.defined()) buffer = at::empty({clip.height(), clip.width(), of_alpha ? 1 : 3}, at::TensorOptions().dtype(at::kByte));
  auto* to = buffer.mutable_data_ptr<uint8_t>();
  if (of_alpha) clip.write_alpha(to);
  else clip.write_pixels(to);
  if (!clip.is_mirrored() && clip.quarter_turns() == 0) return buffer;
  return at::rot90(clip.is_mirrored() ? buffer.flip({1}) : buffer, clip.quarter_turns(), {0, 1}).contiguous();
}

/// Whether that time comes before what is `end` ticks after the first frame, by more than half a tick.
bool is_before(const Fraction& time, int64_t end, const Fraction& tick) {
  return 2 * time.num * tick.den < (2 * end - 1) * tick.num * time.den;
}

std::string seconds_of(int64_t end, const Fraction& tick) {
  return fmt::format("{:.2f} s", static_cast<double>(end) * static_cast<double>(tick.num) / static_cast<double>(tick.den));
}

at::Tensor frames_at(const fs::path& path, const std::vector<Fraction>& times, bool of_alpha) {
  at::Tensor frames_FHWC;
  for_frames_at(path, times, of_alpha, [&](int64_t k, const at::Tensor& frame_HWC) {
    if (k == 0) frames_FHWC = at::empty({std::ssize(times), frame_HWC.size(0), frame_HWC.size(1), frame_HWC.size(2)}, frame_HWC.options());
    frames_FHWC[k].copy_(frame_HWC);
  });
  return frames_FHWC;
}

}  // namespace

bool is_video(const fs::path& path) { return std::ranges::find(kVideos, small_ending(path)) != kVideos.end(); }

bool is_clip_alone(const fs::path& path) { return is_video(path) || io::is_folder(path); }

bool may_be_clip(const fs::path& path) { return is_clip_alone(path) || small_ending(path) == ".gif" || small_ending(path) == ".webp"; }

std::unique_ptr<ClipFrames> open_clip(const fs::path& path) {
  return reading(path.string(), [&]() -> std::unique_ptr<ClipFrames> {
    if (io::is_folder(path)) return open_frame_folder(path);
    if (!is_video(path)) return std::make_unique<HeldFrames>(read_file_bytes(path), path.string());
    auto* open = clip_library_for(path).open;
    if (!io::is_there(path)) return std::make_unique<HeldFrames>(read_file_bytes(path), open);  // in an archive
    return std::make_unique<HeldFrames>(path.c_str(), open);
  });
}

ClipLook look_at_clip(const fs::path& path) {
  auto clip = open_clip(path);
  return reading(path.string(), [&] {
    ClipLook look;
    look.size = {clip->height(), clip->width()};
    if (clip->quarter_turns() % 2 == 1) std::swap(look.size.height, look.size.width);
    std::vector<int64_t> shown;  // ticks
    for (int64_t start = 0; clip->next(); start = clip->end()) {
      if (interrupted()) throw Error(Exit::interrupted, "data", fmt::format("interrupted while looking at {}", path.string()));
      shown.push_back(clip->end() - start);
    }
    look.num_frames = std::ssize(shown);
    auto tick = clip->tick();
    if (auto damage = clip->damage(); !damage.empty())
      data_error("data", "{} is truncated or damaged ({}): {} frames, {}, could be decoded; cut off what is behind them, or leave it out",
                 path.string(), damage, look.num_frames, seconds_of(clip->end(), tick));
    if (clip->is_interlaced())
      warn("{} is interlaced: what moves in its frames has combs for edges; take them out with ffmpeg's filter bwdif, say", path.string());
    if (!clip->has_times()) return look;
    look.duration = {clip->end() * tick.num, tick.den};
    auto median = shown.begin() + std::ssize(shown) / 2;
    std::nth_element(shown.begin(), median, shown.end());
    if (!shown.empty()) look.usual_frame = {*median * tick.num, tick.den};
    return look;
  });
}

at::Tensor decode_frames(const fs::path& path, const std::vector<Fraction>& times) { return frames_at(path, times, /*of_alpha=*/false); }

at::Tensor decode_frame_alphas(const fs::path& path, const std::vector<Fraction>& times) {
  return frames_at(path, times, /*of_alpha=*/true);
}

void for_frames_at(const fs::path& path, const std::vector<Fraction>& times, bool of_alpha,
                   const std::function<void(int64_t k, const at::Tensor& frame_HWC)>& take) {
  auto clip = open_clip(path);
  reading(path.string(), [&] {
    if (!times.empty() && !clip->skip_to(times[0])) clip = open_clip(path);
    at::Tensor buffer;
    const auto count = std::ssize(times);
    auto is_shown_at = [&](int64_t k) { return k < count && is_before(times[static_cast<size_t>(k)], clip->end(), clip->tick()); };
    int64_t k = 0;
    while (k < count && clip->next()) {
      if (!is_shown_at(k)) continue;
      auto frame_HWC = upright_frame(*clip, of_alpha, buffer);
      for (; is_shown_at(k); ++k) take(k, frame_HWC);
    }
    if (k < count)
      data_error("data", "{} ends {} after its first frame, and a later frame was asked for; was it changed?", path.string(),
                 seconds_of(clip->end(), clip->tick()));
  });
}

void for_each_frame(const fs::path& path, bool of_alpha, const std::function<void(const at::Tensor& frame_HWC)>& take) {
  auto clip = open_clip(path);
  reading(path.string(), [&] {
    at::Tensor buffer;
    while (clip->next()) take(upright_frame(*clip, of_alpha, buffer));
  });
}

}  // namespace burnish::data
