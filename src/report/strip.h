#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace burnish::report {

/// The numbers of the frames of a clip that stand side by side: up to six, evenly spread, with the first and the last one.
std::vector<int64_t> frames_in_strip(int64_t num_frames);

/// Puts these frames of a clip (data::open_clip) into one picture from left to right, each scaled down: the bytes of a WebP file. A data
/// Error where the clip cannot be read.
std::string strip_of(const std::filesystem::path& clip);

}  // namespace burnish::report
