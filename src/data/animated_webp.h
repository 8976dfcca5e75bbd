#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace burnish::data {

/// The most pixels that a side of a WebP picture has.
constexpr int64_t kMostWebpPixelsASide = 16383;

/// Writes a clip, uint8 [3, F, H, W], as an animated WebP that plays again and again, atomically, with `text` as its XMP metadata (UTF-8).
/// Frame k is shown from round(1000 · k / frame_rate) milliseconds on, so that the length of a clip is right to a millisecond.
void write_webp(const std::filesystem::path& path, const at::Tensor& clip_3FHW, double frame_rate,
                const std::vector<std::pair<std::string, std::string>>& text = {});

/// Reads the metadata of a WebP file as write_webp puts it there; a data Error where the file is no whole WebP. Metadata of other programs
/// is left out.
std::map<std::string, std::string> read_webp_text(const std::filesystem::path& path);

/// Returns the number of frames in a WebP file; a data Error where it is no whole WebP.
int64_t num_frames_of_webp(const std::filesystem::path& path);

/// Returns frame `k` of a clip, uint8 [3, F, H, W], as a picture [H, W, 3].
at::Tensor frame_of_clip(const at::Tensor& clip_3FHW, int64_t k);

}  // namespace burnish::data
