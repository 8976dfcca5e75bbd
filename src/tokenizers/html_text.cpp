#include "tokenizers/html_text.h"

#include <algorithm>
#include <optional>

#include "tokenizers/text_rules.h"

namespace burnish::tokenizers {

namespace {

bool is_digit(char32_t c, bool is_hex) {
  return (c >= U'0' && c <= U'9') || (is_hex && ((c >= U'a' && c <= U'f') || (c >= U'A' && c <= U'F')));
}

bool is_letter_or_digit(char32_t c) { return is_digit(c, false) || (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z'); }

/// Counts the characters from a place on for which `fits` holds, up to so many.
template <class Fits>
size_t count_from(const std::u32string& text, size_t at, size_t most, const Fits& fits) {
  size_t count = 0;
  while (count < most && at + count < text.size() && fits(text[at + count])) ++count;
  return count;
}

/// The character of a number as HTML has it; none for one that stands for nothing.
std::u32string character_of(const std::u32string& digits, bool is_hex) {
  constexpr char32_t kLast = 0x10FFFF, kNone = 0xFFFD;
  char32_t code = 0;
  for (const auto digit : digits) {
    const auto value = digit <= U'9' ? digit - U'0' : (digit | 0x20) - U'a' + 10;
    code = std::min<char32_t>(code * (is_hex ? 16 : 10) + value, kLast + 1);
  }
  const auto& rules = text_rules();
  if (const auto other = rules.references.find(code); other != rules.references.end()) return other->second;
  if ((code >= 0xD800 && code <= 0xDFFF) || code > kLast) return {kNone};
  return rules.unreferred.holds(code) ? std::u32string() : std::u32string{code};
}

/// The text that stands for a part of another, and how long that part is.
struct Replacement {
  std::u32string text;
  size_t length = 0;
};

/// "&#233;" or "&#xe9", from the "&" on; none where no digit follows.
std::optional<Replacement> number_at(const std::u32string& text, size_t at) {
  auto digits = at + 2;
  const bool is_hex = digits < text.size() && (text[digits] | 0x20) == U'x';
  digits += is_hex ? 1 : 0;
  const auto count = count_from(text, digits, text.size(), [&](char32_t c) { return is_digit(c, is_hex); });
  if (count == 0) return std::nullopt;
  auto end = digits + count;
  if (end < text.size() && text[end] == U';') ++end;
  return Replacement{character_of(text.substr(digits, count), is_hex), end - at};
}

/// "&eacute;", or the longest name that a word begins with, from the "&" on; none where that begins with none.
std::optional<Replacement> name_at(const std::u32string& text, size_t at) {
  constexpr size_t kLongest = 32;
  constexpr std::u32string_view kEnds = U"\t\n\f <&#;";
  auto count = count_from(text, at + 1, kLongest, [&](char32_t c) { return kEnds.find(c) == kEnds.npos; });
  if (count == 0) return std::nullopt;
  if (at + 1 + count < text.size() && text[at + 1 + count] == U';') ++count;
  const auto& names = text_rules().html;
  if (const auto whole = names.find(text.substr(at + 1, count)); whole != names.end()) return Replacement{whole->second, 1 + count};
  for (auto length = count - 1; length > 1; --length) {
    if (const auto part = names.find(text.substr(at + 1, length)); part != names.end()) return Replacement{part->second, 1 + length};
  }
  return std::nullopt;
}

std::optional<Replacement> reference_at(const std::u32string& text, size_t at) {
  const bool is_number = at + 1 < text.size() && text[at + 1] == U'#';
  return is_number ? number_at(text, at) : name_at(text, at);
}

/// The same for what ends in a semicolon and is a name or a number to the end.
std::optional<Replacement> reference_with_semicolon_at(const std::u32string& text, size_t at) {
  constexpr size_t kLongest = 24;
  const bool is_number = at + 1 < text.size() && text[at + 1] == U'#';
  const auto begin = at + (is_number ? 2 : 1);
  const auto end = begin + count_from(text, begin, kLongest, is_letter_or_digit);
  if (end == begin || end == text.size() || text[end] != U';') return std::nullopt;
  if (is_number) {
    auto number = number_at(text, at);
    return number && number->length == end + 1 - at ? number : std::nullopt;
  }
  for (const auto* names : {&text_rules().html, &text_rules().capitals}) {
    if (const auto name = names->find(text.substr(begin, end + 1 - begin)); name != names->end())
      return Replacement{name->second, end + 1 - at};
  }
  return std::nullopt;
}

template <class Find>
std::u32string replaced(const std::u32string& text, const Find& find) {
  std::u32string out;
  for (size_t at = 0; at < text.size();) {
    const auto found = text[at] == U'&' ? find(text, at) : std::nullopt;
    out += found ? found->text : std::u32string{text[at]};
    at += found ? found->length : 1;
  }
  return out;
}

}  // namespace

std::u32string unescaped(const std::u32string& text) { return replaced(text, reference_at); }

std::u32string unescaped_with_semicolons(const std::u32string& text) { return replaced(text, reference_with_semicolon_at); }

}  // namespace burnish::tokenizers
