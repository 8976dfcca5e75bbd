#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// What tokenizers know of Unicode, beside white_space.h.
namespace burnish::tokenizers {

std::string to_utf8(int32_t code);

/// Returns the code points of `text`. What is no UTF-8 becomes U+FFFD, one for as many bytes as could begin a character (Unicode 3.9:
/// maximal subparts), as tokenizers and Python have it.
std::vector<int32_t> code_points(std::string_view text);

/// Composes code points canonically (NFC).
std::vector<int32_t> compose(const std::vector<int32_t>& codes);

/// Tells whether a code point is of the categories L, M and N.
bool is_letter(int32_t code);
bool is_mark(int32_t code);
bool is_number(int32_t code);
/// Tells whether a code point is a letter that is not small, or a mark; and whether it is one that is no capital, or a mark.
bool is_no_small_letter(int32_t code);
bool is_no_capital(int32_t code);

}  // namespace burnish::tokenizers
