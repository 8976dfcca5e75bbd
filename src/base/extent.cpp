#include "base/extent.h"

#include <fmt/core.h>

namespace burnish {

std::string spelled(const Extent& extent) {
  auto frame = fmt::format("{}x{}", extent.height, extent.width);
  return extent.frames == 1 ? frame : fmt::format("{}x{}", extent.frames, frame);
}

std::string text_of(const Extent& extent) {
  auto frame = fmt::format("{}x{}", extent.width, extent.height);
  return extent.frames == 1 ? frame : fmt::format("{}x{}", frame, extent.frames);
}

}  // namespace burnish
