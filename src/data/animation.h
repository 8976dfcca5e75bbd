#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "data/clip_frames.h"

namespace burnish::data {

/// Opens the frames of a GIF or WebP animation, composed and laid over white; null where the bytes are neither. `bytes` must stay.
std::unique_ptr<ClipFrames> open_animation(std::string_view bytes, const std::string& file);

}  // namespace burnish::data
