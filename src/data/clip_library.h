#pragma once
#include <filesystem>

#include "data/raw_sound.h"

namespace burnish::data {

/// The functions of our library that is linked to FFmpeg's.
struct ClipLibrary {
  OpenClip* open;
  BeginVideo* begin_video;
  ReadVideoText* read_video_text;
  DecodeSound* decode_sound;
};

/// Opens the library when the first video comes. A data Error names `file`, for which it is needed, and what is missing.
const ClipLibrary& clip_library_for(const std::filesystem::path& file);

}  // namespace burnish::data
