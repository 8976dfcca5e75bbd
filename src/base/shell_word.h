#pragma once
#include <string>

namespace burnish {

/// Quotes a text as one word of a shell of POSIX.
std::string shell_word(const std::string& text);

}  // namespace burnish
