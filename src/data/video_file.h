#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/clip_frames.h"
#include "data/sound.h"

namespace burnish::data {

/// Throws a data Error where FFmpeg's libraries or their encoders, of which `path` would be written, are not there.
void check_video(const std::filesystem::path& path);

/// Writes a clip, uint8 [3, F, H, W], as MP4 or WebM by the file's ending, atomically, with `text` as its metadata (UTF-8): by FFmpeg's
/// encoders libx264, libopenh264 or mpeg4, and libvpx-vp9, in 4:2:0 by the matrix of BT.709 in limited range, which the file says. Of MP4
/// odd sides are filled up by their last row or column. A sound is written beside, as AAC in MP4 and as Opus in WebM. `encoders`, if any,
/// takes the place of the names of those of frames. A data Error where none of them is there.
void write_video(const std::filesystem::path& path, const at::Tensor& clip_3FHW, const Fraction& frame_rate,
                 const std::vector<std::pair<std::string, std::string>>& text = {}, const std::vector<std::string>& encoders = {},
                 const Sound& sound = {});

/// Reads the metadata of a video; names are in small letters, as write_video is given them. A data Error where it is no video.
std::map<std::string, std::string> read_video_text(const std::filesystem::path& path);

}  // namespace burnish::data
