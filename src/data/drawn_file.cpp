#include "data/drawn_file.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/input_error.h"
#include "base/log.h"
#include "data/animated_webp.h"
#include "data/clip_window.h"
#include "data/image.h"
#include "data/resize.h"
#include "data/video_file.h"
#include "io/files.h"
#include "io/output_file.h"

namespace burnish::data {

namespace fs = std::filesystem;

namespace {

bool is_of_clip(const Extent& extent) { return extent.frames > 1; }

bool is_video_format(const std::string& format) { return format == "mp4" || format == "webm"; }

/// The word for the default of clips that sound, which no user gives.
const std::string kSounding = "sounding";

/// The format that is meant, of which default is none.
std::string meant(const std::string& format, bool is_clip) {
  if (format != "default" && format != kSounding) return format;
  if (!is_clip) return "png";
  return format == kSounding ? "mp4" : "webp";
}

fs::path frame_file(const fs::path& folder, int64_t k) { return folder / fmt::format("{:05}.png", k); }

fs::path layer_file(const fs::path& stem, int64_t k) { return stem.string() + (k == 0 ? ".png" : fmt::format("_{}.png", k)); }

/// Writes the frames of a clip into a folder; those of a longer clip that was there before go.
void write_frames(const fs::path& folder, const at::Tensor& clip_3FHW, const Texts& text) {
  fs::create_directories(folder);
  const auto num_frames = clip_3FHW.size(1);
  for (int64_t k = 0; k < num_frames; ++k) write_png(frame_file(folder, k), frame_of_clip(clip_3FHW, k), text);
  for (auto k = num_frames; fs::remove(frame_file(folder, k)); ++k) continue;
}

/// Writes layers as PNG files of their own; those of a picture of more layers that was there before go.
void write_layers(const fs::path& stem, const at::Tensor& drawn_4FHW, const Texts& text) {
  const auto num_layers = drawn_4FHW.size(1);
  for (int64_t k = 0; k < num_layers; ++k) write_png(layer_file(stem, k), frame_of_clip(drawn_4FHW, k), text);
  for (auto k = num_layers; fs::remove(layer_file(stem, k)); ++k) continue;
}

/// Returns the metadata of a picture or clip, by the kind of its file.
std::map<std::string, std::string> text_of(const fs::path& path) {
  const auto ending = path.extension();
  if (ending == ".png") return read_png_text(path);
  return ending == ".webp" ? read_webp_text(path) : read_video_text(path);
}

}  // namespace

bool is_drawn_clip(const at::Tensor& drawn) { return drawn.dim() == 4 && drawn.size(0) == 3; }

void check_holds(const Column& target, const FormatSetting& setting) {
  if (target.is != Column::Is::layers || setting.format == "default" || setting.format == "png") return;
  config_error(setting.asker,
               "{} {} is for pictures and clips, and this model draws layers, which are written as PNG; set {} png, or take it out",
               setting.name, setting.format, setting.name);
}

void check_format(const FormatSetting& setting, const std::vector<Extent>& extents, const fs::path& stem) {
  const auto& [asker, name, format, frames_hint] = setting;
  if (is_video_format(format)) {
    if (!std::ranges::all_of(extents, is_of_clip))
      config_error(asker, "{} {} holds clips, and some of what is drawn is one frame; {}, or set {} png", name, format, frames_hint, name);
    check_video(drawn_path(stem, format, /*is_clip=*/true));
  }
  const bool any_clip = std::ranges::any_of(extents, is_of_clip);
  if (format == kSounding && any_clip) check_video(drawn_path(stem, format, /*is_clip=*/true));
  for (const auto& extent : extents) {
    const auto& [frames, height, width] = extent;
    if (meant(format, is_of_clip(extent)) == "webp" && std::max(height, width) > kMostWebpPixelsASide)
      config_error(asker, "WebP has sides of at most {} pixels, and the picture is {} wide and {} high; set {} png, or draw it smaller",
                   kMostWebpPixelsASide, width, height, name);
  }
}

fs::path drawn_path(const fs::path& stem, const std::string& format, bool is_clip) {
  auto kind = meant(format, is_clip);
  return kind == "png" && is_clip ? stem : fs::path(stem.string() + "." + kind);
}

bool is_drawn_file(const fs::path& path) {
  const auto text = text_of(path);
  return text.contains("prompt") && (text.contains("num_inference_steps") || text.contains("lora_strengths"));
}

void check_replaces_drawn(const char* asker, const fs::path& stem, const std::string& format, const Extent& extent, bool is_layers) {
  const bool is_clip = is_of_clip(extent) && !is_layers;
  const auto path = drawn_path(stem, format, is_clip);
  const bool is_folder = path == stem;
  if (!is_layers && !is_folder) return io::check_replaces(asker, path, is_drawn_file);
  if (is_folder && !io::is_folder(path)) return io::check_replaces(asker, path, [](const fs::path&) { return false; });
  for (int64_t k = 0;; ++k) {
    const auto file = is_layers ? layer_file(stem, k) : frame_file(path, k);
    if (k >= extent.frames && !io::is_there(file)) return;
    io::check_replaces(asker, file, is_drawn_file);
  }
}

std::string format_with_sound(const std::string& format) {
  if (format == "default") return kSounding;
  static bool is_said = false;
  if (!is_video_format(format) && format != kSounding && !std::exchange(is_said, true))
    warn("clips of this model sound, and {} holds no sound, which is left out; mp4 and webm hold it", format);
  return format;
}

void write_drawn(const fs::path& stem, const std::string& format, const at::Tensor& drawn, double frame_rate, const Texts& text,
                 const Sound& sound) {
  if (drawn.size(0) == 4) return write_layers(stem, drawn.dim() == 4 ? drawn : to_pixels(drawn).permute({2, 0, 1}).unsqueeze(1), text);
  const bool is_clip = is_drawn_clip(drawn);
  const auto path = drawn_path(stem, format, is_clip);
  if (is_video_format(meant(format, is_clip))) return write_video(path, drawn, as_fraction(frame_rate), text, {}, sound);
  const bool is_webp = meant(format, is_clip) == "webp";
  if (is_clip) return is_webp ? write_webp(path, drawn, frame_rate, text) : write_frames(path, drawn, text);
  const auto pixels_HW3 = to_pixels(drawn);
  if (is_webp) write_webp(path, pixels_HW3.permute({2, 0, 1}).unsqueeze(1), frame_rate, text);
  else write_png(path, pixels_HW3, text);
}

}  // namespace burnish::data
