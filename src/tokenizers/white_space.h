#pragma once
#include <cstdint>
#include <string_view>

namespace burnish::tokenizers {

/// Tells whether a code point has Unicode's property White_Space.
constexpr bool is_white_space(int32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/// Returns a text without white space at its beginning and its end, as Python's str.strip does.
std::string_view stripped(std::string_view text);

}  // namespace burnish::tokenizers
