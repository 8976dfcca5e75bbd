#include "models/families/wan/prompt.h"

#include <utf8proc.h>

#include <array>
#include <charconv>
#include <optional>

#include "tokenizers/white_space.h"

namespace burnish::models::wan {

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNamed{
    {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}, {"nbsp", "\u00a0"}}};

std::string encoded(utf8proc_int32_t code) {
  std::array<utf8proc_uint8_t, 4> bytes{};
  auto n = utf8proc_encode_char(code, bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(n)};
}

/// The character behind a name between "&" and ";"; nothing for a name that is none of these.
std::optional<std::string> named(std::string_view name) {
  for (const auto& [known, character] : kNamed) {
    if (name == known) return std::string(character);
  }
  if (!name.starts_with('#')) return std::nullopt;
  name.remove_prefix(1);
  bool is_hex = name.starts_with('x') || name.starts_with('X');
  if (is_hex) name.remove_prefix(1);
  int32_t code = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), code, is_hex ? 16 : 10);
  if (error != std::errc() || end != name.data() + name.size() || !utf8proc_codepoint_valid(code)) return std::nullopt;
  return encoded(code);
}

std::string unescaped(std::string_view text) {
  constexpr size_t kLongestName = 9;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    auto end = text[at] == '&' ? text.find(';', at) : text.npos;
    bool may_be_name = end != text.npos && end - at <= kLongestName;
    if (auto character = may_be_name ? named(text.substr(at + 1, end - at - 1)) : std::nullopt) {
      out += *character;
      at = end + 1;
    } else {
      out += text[at++];
    }
  }
  return out;
}

bool is_control(utf8proc_int32_t code) {
  auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_CC || (code >= 0x206a && code <= 0x206f) || code == 0xfeff || (code >= 0xfff9 && code <= 0xfffc);
}

/// Counts the bytes at the front of `text` that tell a terminal how to show what follows: ESC [, digits and semicolons, a letter; 0: none.
size_t terminal_command(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  auto end = text.find_first_not_of("0123456789;", 2);
  bool is_letter = end != text.npos && ((text[end] >= 'a' && text[end] <= 'z') || (text[end] >= 'A' && text[end] <= 'Z'));
  return is_letter ? end + 1 : 0;
}

std::string straightened(utf8proc_int32_t code, std::string_view as_it_is) {
  if (code >= 0x2018 && code <= 0x201b) return "'";
  if (code >= 0x201c && code <= 0x201f) return "\"";
  return std::string(as_it_is);
}

}  // namespace

std::string tidy_prompt(std::string_view text) {
  const auto plain = unescaped(unescaped(text));
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(plain.data());
  std::string out;
  bool is_apart = false;
  for (size_t at = 0; at < plain.size();) {
    if (auto command = terminal_command(std::string_view(plain).substr(at))) {
      at += command;
      continue;
    }
    utf8proc_int32_t code = 0;
    auto read = utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(plain.size() - at), &code);
    auto length = static_cast<size_t>(std::max<utf8proc_ssize_t>(read, 1));
    auto as_it_is = std::string_view(plain).substr(at, length);
    at += length;
    if (read > 0 && tokenizers::is_white_space(code)) {
      is_apart = !out.empty();
    } else if (read < 1 || !is_control(code)) {
      if (is_apart) out += ' ';
      is_apart = false;
      out += read < 1 ? std::string(as_it_is) : straightened(code, as_it_is);
    }
  }
  return out;
}

}  // namespace burnish::models::wan
