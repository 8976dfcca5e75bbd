#pragma once
#include <filesystem>
#include <memory>

#include "data/clip_frames.h"

namespace burnish::data {

/// Opens a folder of pictures as a clip. Its frames have no times: each is shown for a tick. A data Error where there is none, and while it
/// is read where one cannot be decoded or is of another size than the first.
std::unique_ptr<ClipFrames> open_frame_folder(const std::filesystem::path& folder);

}  // namespace burnish::data
