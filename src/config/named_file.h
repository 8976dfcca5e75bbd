#pragma once
#include <optional>
#include <string>

namespace burnish::config {

/// The file that a text names which may say more behind a colon (FILE:STRENGTH): the text where it is there, or else what stands before the
/// last colon where that is; none where neither is.
std::optional<std::string> named_file(const std::string& text);

}  // namespace burnish::config
