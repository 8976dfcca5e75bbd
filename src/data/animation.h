#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "data/clip_frames.h"

namespace burnish::data {

/// Opens the frames of a GIF or WebP animation, composed and laid over white; null where the bytes are neither. `bytes` must stay.
std::unique_ptr<ClipFrames> open_animation(std::string_view bytes, const std::string& file);

/// Tells whether the bytes are a GIF or WebP picture of more than one frame, none of which is decoded; false for damaged ones.
bool is_animation(std::string_view bytes);

}  // namespace burnish::data
