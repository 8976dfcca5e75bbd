#pragma once
#include <filesystem>
#include <string_view>

namespace burnish::io {

/// Puts `text` in the place of a file, for what is written often and only tells: a reader finds the old text or the new one, whole. Nothing
/// waits for the disk, so after the machine itself went down the file may be empty. A data Error when it cannot be written; then the
/// old text stays.
void tell(const std::filesystem::path& path, std::string_view text);

}  // namespace burnish::io
