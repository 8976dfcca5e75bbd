#pragma once
#include <optional>
#include <string>

namespace burnish::config {

/// The file that a text names which may say more behind colons (FILE:STRENGTH:LAYERS): the text where it is there, or else the longest that
/// stands before a colon and is there; none where nothing is.
std::optional<std::string> named_file(const std::string& text);

}  // namespace burnish::config
