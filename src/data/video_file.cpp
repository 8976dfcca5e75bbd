#include "data/video_file.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <stdexcept>

#include "base/error.h"
#include "base/input_error.h"
#include "base/log.h"
#include "data/animated_webp.h"
#include "data/clip_library.h"
#include "data/codecs.h"
#include "io/files.h"

namespace burnish::data {

namespace {

/// 4:2:0 has a colour for two pixels a side, and H.264 no halves of one.
at::Tensor with_even_sides(at::Tensor clip_3FHW) {
  for (int64_t side : {2, 3}) {
    auto length = clip_3FHW.size(side);
    if (length % 2 == 1) clip_3FHW = at::cat({clip_3FHW, clip_3FHW.narrow(side, length - 1, 1)}, side);
  }
  return clip_3FHW;
}

/// Browsers play none of this encoder's videos.
void say_encoder(const std::string& name) {
  static bool is_said = false;
  if (name != "mpeg4" || std::exchange(is_said, true)) return;
  warn(
      "FFmpeg's libraries here have neither libx264 nor libopenh264: videos are written as MPEG-4 part 2, which browsers do not play; set "
      "format webm or webp for those");
}

/// Sound as it is written: at a rate that every encoder takes.
RawSound as_written(const Sound& sound) {
  constexpr int64_t kWrittenRate = 48000;
  if (!sound.samples_CN.defined()) return {};
  const auto samples = resample(sound.samples_CN.to(at::kCPU, at::kFloat), sound.rate, kWrittenRate).clamp(-1, 1).contiguous();
  const auto* first = samples.const_data_ptr<float>();
  return {kWrittenRate, samples.size(0), {first, first + samples.numel()}};
}

bool is_webm(const std::filesystem::path& path) { return path.extension() == ".webm"; }

/// A video as it is asked for, with an encoder.
std::unique_ptr<VideoWriter> begin(const std::filesystem::path& path, VideoFormat format) {
  format.container = is_webm(path) ? "webm" : "mp4";
  if (format.encoders.empty())
    format.encoders = is_webm(path) ? std::vector<std::string>{"libvpx-vp9"} : std::vector<std::string>{"libx264", "libopenh264", "mpeg4"};
  return std::unique_ptr<VideoWriter>(clip_library_for(path).begin_video(format));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const char* reason) {
  data_error("data", "the video {} cannot be written: {}; set format webp or png", path.string(), reason);
}

}  // namespace

void check_video(const std::filesystem::path& path) try {
  constexpr int64_t kSide = 64;
  begin(path, {.container = "", .encoders = {}, .height = kSide, .width = kSide});
} catch (const Error&) {
  throw;
} catch (const std::runtime_error& error) {
  refuse(path, error.what());
}

void write_video(const std::filesystem::path& path, const at::Tensor& clip_3FHW, const Fraction& frame_rate,
                 const std::vector<std::pair<std::string, std::string>>& text, const std::vector<std::string>& encoders,
                 const Sound& sound) try {
  const auto clip = is_webm(path) ? clip_3FHW : with_even_sides(clip_3FHW);
  auto video = begin(path, {.container = "",
                            .encoders = encoders,
                            .height = clip.size(2),
                            .width = clip.size(3),
                            .rate = frame_rate,
                            .text = text,
                            .sound = as_written(sound)});
  say_encoder(video->encoder());
  for (int64_t k = 0; k < clip.size(1); ++k) video->add(frame_of_clip(clip, k).const_data_ptr<uint8_t>());
  io::write_text_atomic(path, video->finish());
} catch (const Error&) {
  throw;
} catch (const std::runtime_error& error) {
  refuse(path, error.what());
}

std::map<std::string, std::string> read_video_text(const std::filesystem::path& path) try {
  std::map<std::string, std::string> text;
  for (const auto& [name, value] : clip_library_for(path).read_video_text(path.c_str())) {
    std::string small = name;
    std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    text[small] = value;
  }
  return text;
} catch (const Error&) {
  throw;
} catch (const std::runtime_error& error) {
  refuse_picture(path.string(), error.what());
}

}  // namespace burnish::data
