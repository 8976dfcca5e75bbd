#pragma once
#include <string>

namespace burnish::tokenizers {

/// Puts characters in the place of HTML's names and numbers of them, with and without a semicolon, as browsers and Python's html.unescape
/// do.
std::u32string unescaped(const std::u32string& text);

/// Puts characters in the place of names and numbers that end in a semicolon, names in capitals among them, as ftfy does.
std::u32string unescaped_with_semicolons(const std::u32string& text);

}  // namespace burnish::tokenizers
