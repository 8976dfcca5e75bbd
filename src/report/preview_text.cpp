#include "report/preview_text.h"

#include "base/error.h"
#include "base/log.h"
#include "data/animated_webp.h"
#include "data/image.h"
#include "data/video_file.h"

namespace burnish::report {

std::map<std::string, std::string> preview_text(records::PreviewKind kind, const std::filesystem::path& path) {
  using Kind = records::PreviewKind;
  if (kind == Kind::webp) return data::read_webp_text(path);
  if (kind == Kind::png || kind == Kind::frames) return data::read_png_text(path);
  try {
    return data::read_video_text(path);
  } catch (const Error& error) {
    warn("left out: {}", error.what());
    return {};
  }
}

}  // namespace burnish::report
