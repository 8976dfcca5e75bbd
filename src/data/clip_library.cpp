#include "data/clip_library.h"

#include "base/input_error.h"
#include "base/library.h"

namespace burnish::data {

const ClipLibrary& clip_library_for(const std::filesystem::path& file) {
  static const Library library(companion("clips").string());
  if (!library.is_open())
    data_error(
        "data",
        "{} is read and written by FFmpeg's libraries, which cannot be opened ({}); install the packages libavformat59, libavcodec59, "
        "libswscale6 and libswresample4, or take a GIF or WebP animation in its place",
        file.string(), library.problem());
  static const ClipLibrary functions{library.find(kOpenClip), library.find(kBeginVideo), library.find(kReadVideoText),
                                     library.find(kDecodeSound)};
  return functions;
}

}  // namespace burnish::data
