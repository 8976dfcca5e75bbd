#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "records/previews.h"

namespace burnish::report {

/// Returns what a preview's file says of how it was drawn, by name ("prompt"). Of a video nothing, with a warning, where the libraries that
/// read it are not: it may be shown all the same. A data Error for a picture that cannot be read.
std::map<std::string, std::string> preview_text(records::PreviewKind kind, const std::filesystem::path& path);

}  // namespace burnish::report
