#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "data/clip_frames.h"

namespace burnish::data {

/// Tells by its ending whether a file is a picture.
bool is_picture_name(const std::filesystem::path& path);

/// The pictures of a folder in the order of the numbers in their names: frame_2.png is before frame_10.png. Hidden files and folders in it
/// are left out.
std::vector<std::filesystem::path> frame_files(const std::filesystem::path& folder);

/// Opens a folder of pictures as a clip. Its frames have no times: each is shown for a tick. A data Error where there is none, and while it
/// is read where one cannot be decoded or is of another size than the first.
std::unique_ptr<ClipFrames> open_frame_folder(const std::filesystem::path& folder);

}  // namespace burnish::data
