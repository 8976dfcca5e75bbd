#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace burnish {

/// Splits at every `separator`, trims blanks around the parts and drops empty parts.
std::vector<std::string> split_list(std::string_view text, char separator = ',');

/// Cuts off blanks, tabs and line ends at both sides.
std::string_view trim(std::string_view text);

/// Tells whether the bytes are UTF-8 (no overlong forms, no surrogates).
bool is_utf8(std::string_view text);

/// Tells whether a dotted path is `part` or lies below it; everything lies below "".
bool lies_below(std::string_view path, std::string_view part);

bool contains(std::span<const std::string> list, std::string_view name);

/// Writes the parts with the separator between them: "a, b, c".
std::string join(std::span<const std::string> parts, std::string_view separator = ", ");

/// The candidate with the smallest edit distance to `word`, or "" when none is near enough to be a likely typo.
std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

/// Writes a number of bytes as people read it: "1.50 GiB", "12 B".
std::string human_bytes(double bytes);

/// Writes a duration as people read it: "1h02m", "3m05s", "12s".
std::string human_seconds(double seconds);

}  // namespace burnish
