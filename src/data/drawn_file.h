#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/column.h"
#include "data/sound.h"

namespace burnish::data {

/// The words for what drawn pictures and clips are written as: of a clip png is a folder of frames, mp4 and webm hold clips alone, and
/// default is png for pictures and webp for clips, of clips that sound mp4.
inline const std::vector<std::string> kFormats{"default", "png", "webp", "mp4", "webm"};

/// A setting that holds one of these words: who asks, its name, and how another call gives a picture frames.
struct FormatSetting {
  const char* asker;
  std::string name, format = "default", frames_hint;
};

/// Throws a config Error for sizes that no file of the format holds, and a data Error without an encoder of videos; `stem` is where one of
/// them would be written.
void check_format(const FormatSetting& setting, const std::vector<Extent>& extents, const std::filesystem::path& stem);

/// Refuses, by io::check_replaces, a place where write_drawn would replace, or take away, what is no picture or clip that was drawn.
/// `is_layers` is whether what is drawn has transparency.
void check_replaces_drawn(const char* asker, const std::filesystem::path& stem, const std::string& format, const Extent& extent,
                          bool is_layers);

/// Tells by its metadata whether a PNG, WebP or video file was drawn by this program.
bool is_drawn_file(const std::filesystem::path& path);

using Texts = std::vector<std::pair<std::string, std::string>>;

/// Throws a config Error for a format that does not hold what is drawn: layers are held by PNG alone.
void check_holds(const Column& target, const FormatSetting& setting);

/// Writes a picture [3, H, W] or a clip [3, F, H, W], as they are drawn, on the CPU, under a path without ending, to which it
/// adds that of the format; of a folder of frames none, and frames of a longer clip that was there before go. `text` is its metadata, and
/// `sound` is heard beside a clip where the format holds it.
///
/// With transparency, [4, H, W] or [4, F, H, W], frames are layers of one picture: the first is written under the path, the k-th behind it
/// under the path, an underscore and k, as data with layers are named; those of a picture of more layers that was there before go.
void write_drawn(const std::filesystem::path& stem, const std::string& format, const at::Tensor& drawn, double frame_rate,
                 const Texts& text, const Sound& sound = {});

/// Returns the format that is meant where clips sound: of default the one that holds sound, for clips. Tells users of one that holds none.
std::string format_with_sound(const std::string& format);

/// Tells whether what is drawn is a clip: of several frames that are no layers.
bool is_drawn_clip(const at::Tensor& drawn);

/// Returns the path that write_drawn writes, of layers the first one's.
std::filesystem::path drawn_path(const std::filesystem::path& stem, const std::string& format, bool is_clip);

}  // namespace burnish::data
