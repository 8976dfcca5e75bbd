#include "base/error.h"

#include <fmt/core.h>

#include <string_view>

namespace burnish {

namespace {

constexpr size_t kMostInWord = 600, kShown = 200;  // of its beginning, and of its end

bool is_inside_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }  // of UTF-8

/// The word, or its beginning and its end, cut between characters.
std::string shown(std::string_view word) {
  if (word.size() <= kMostInWord) return std::string(word);
  size_t begin = kShown, end = word.size() - kShown;
  while (begin > 0 && is_inside_character(word[begin])) --begin;
  while (end < word.size() && is_inside_character(word[end])) ++end;
  return fmt::format("{}...({} bytes)...{}", word.substr(0, begin), word.size(), word.substr(end));
}

}  // namespace

std::string one_line(const std::string& text) {
  std::string line, word;
  for (char c : text) {
    const bool ends_word = static_cast<unsigned char>(c) <= 0x20 || c == 0x7F;
    if (!ends_word) {
      word += c;
      continue;
    }
    line += shown(word) + ' ';
    word.clear();
  }
  return line + shown(word);
}

std::string without_source(const std::exception& error) {
  std::string what = error.what();
  auto end = what.starts_with('[') ? what.find("] ") : std::string::npos;
  return end == std::string::npos ? what : what.substr(end + 2);
}

Error::Error(Exit code, const char* room, const std::string& text)
    : std::runtime_error(one_line(fmt::format("[{}] {}", room, text))), code_(code) {}

}  // namespace burnish
