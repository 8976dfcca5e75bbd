#include "base/escapes.h"

#include <algorithm>
#include <array>

namespace burnish {

namespace {

bool is_about_escapes(std::string_view complaint) {
  // These are the sentences of toml++, yaml-cpp and nlohmann/json; "unescaped" is about other characters.
  constexpr std::array<std::string_view, 6> kWords{"escape sequence", "escape character", "hex digit",
                                                   "hex number",      "unicode scalar",   "backslash"};
  return std::ranges::any_of(kWords, [&](auto word) { return complaint.find(word) != complaint.npos; });
}

}  // namespace

std::string hint_in_toml(std::string_view complaint) {
  if (!is_about_escapes(complaint)) return "";
  return "; a backslash in double quotes begins an escape: write a path in single quotes, 'C:\\Users\\me', or with /";
}

std::string hint_in_json(std::string_view complaint) {
  if (!is_about_escapes(complaint)) return "";
  return "; a backslash in JSON begins an escape: write a path with /, or each backslash twice";
}

bool holds_escapes(std::string_view text) { return text.find_first_of("\b\t\n\f\r") != text.npos; }

}  // namespace burnish
