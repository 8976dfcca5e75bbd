#pragma once
#include <filesystem>

#include "captioning/sight.h"

namespace burnish::captioning {

/// The frames of a clip that are shown.
struct FrameRule {
  double rate = 2;    ///< frames a second
  int64_t most = 16;  ///< of a longer clip so many, further apart
};

/// Decodes a picture, or frames of a clip that lie evenly between its first and its last one, at least four where it has them. Frames of
/// which no time is known count as twenty-four a second. A data Error when the file cannot be read.
Shown look(const std::filesystem::path& file, const FrameRule& rule);

}  // namespace burnish::captioning
