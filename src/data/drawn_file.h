#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/extent.h"

namespace burnish::data {

/// The words for what drawn pictures and clips are written as: of a clip png is a folder of frames, mp4 and webm hold clips alone, and
/// default is png for pictures and webp for clips.
inline const std::vector<std::string> kFormats{"default", "png", "webp", "mp4", "webm"};

/// A setting that holds one of these words: who asks, its name, and how another call gives a picture frames.
struct FormatSetting {
  const char* asker;
  std::string name, format = "default", frames_hint;
};

/// Throws a config Error for sizes that no file of the format holds, and a data Error without an encoder of videos; `stem` is where one of
/// them would be written.
void check_format(const FormatSetting& setting, const std::vector<Extent>& extents, const std::filesystem::path& stem);

using Texts = std::vector<std::pair<std::string, std::string>>;

/// Writes a picture [3, H, W] or a clip [3, F, H, W], as they are drawn, on the CPU, under a path without ending, to which it
/// adds that of the format; of a folder of frames none, and frames of a longer clip that was there before go. `text` is its metadata.
void write_drawn(const std::filesystem::path& stem, const std::string& format, const at::Tensor& drawn, double frame_rate,
                 const Texts& text);

/// Returns the path that write_drawn writes.
std::filesystem::path drawn_path(const std::filesystem::path& stem, const std::string& format, bool is_clip);

}  // namespace burnish::data
