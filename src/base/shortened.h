#pragma once
#include <string>

namespace burnish {

/// Returns a text of UTF-8 as it is, or where it is longer its first `most` bytes and "...", cut between characters.
std::string shortened(const std::string& text, size_t most);

}  // namespace burnish
