#include "tokenizers/mended_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "tokenizers/html_text.h"
#include "tokenizers/text_rules.h"

// docs/wan.md says what is done here. Text and bytes are both strings of characters, bytes being those below 256.
namespace burnish::tokenizers {

namespace {

using Text = std::u32string;

bool is_ascii(const Text& text) {
  return std::ranges::all_of(text, [](char32_t c) { return c < 0x80; });
}

bool is_control_of_latin(char32_t c) { return c >= 0x80 && c < 0xA0; }

bool finds(const Sequences& sequences, const Text& text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (length_at(sequences, text, at)) return true;
  }
  return false;
}

/// Puts `make` of each place where one of the sequences fits in its place.
template <class Make>
Text with_each(const Sequences& sequences, const Text& text, const Make& make) {
  Text out;
  for (size_t at = 0; at < text.size();) {
    const auto length = length_at(sequences, text, at);
    out += length ? make(text.substr(at, *length)) : Text{text[at]};
    at += length.value_or(1);
  }
  return out;
}

/// The encoding that Windows calls 1252, whose bytes without a character are controls.
const Encoding& windows_1252() { return *std::ranges::find(text_rules().encodings, "sloppy-windows-1252", &Encoding::name); }

/// Controls of Latin-1 as what Windows has in their places.
Text without_latin_controls(Text text) {
  for (auto& c : text) {
    if (is_control_of_latin(c)) c = windows_1252().upper.at(c - 0x80);
  }
  return text;
}

/// The character of a pair of halves that was encoded half by half, and of a zero of two bytes; none for other bytes.
std::optional<std::pair<char32_t, size_t>> of_variant(const Text& bytes, size_t at) {
  const auto byte = [&](size_t i) { return at + i < bytes.size() ? bytes[at + i] : char32_t{0}; };
  if (byte(0) == 0xC0 && byte(1) == 0x80) return std::pair(char32_t{0}, size_t{2});
  const auto is_rest = [&](size_t i) { return byte(i) >= 0x80 && byte(i) < 0xC0; };
  const bool is_pair = byte(0) == 0xED && byte(1) >= 0xA0 && byte(1) < 0xB0 && is_rest(2) && byte(3) == 0xED && byte(4) >= 0xB0 &&
                       byte(4) < 0xC0 && is_rest(5);
  if (!is_pair) return std::nullopt;
  const auto code = 0x10000 + ((byte(1) & 0x0F) << 16) + ((byte(2) & 0x3F) << 10) + ((byte(4) & 0x0F) << 6) + (byte(5) & 0x3F);
  return std::pair(static_cast<char32_t>(code), size_t{6});
}

/// The characters of bytes in UTF-8; none where a byte is in none.
std::optional<Text> decoded(const Text& bytes) {
  const std::string plain(bytes.begin(), bytes.end());
  const auto* data = reinterpret_cast<const utf8proc_uint8_t*>(plain.data());
  Text text;
  for (size_t at = 0; at < bytes.size();) {
    if (const auto variant = of_variant(bytes, at)) {
      text += variant->first;
      at += variant->second;
      continue;
    }
    utf8proc_int32_t code = 0;
    const auto length = utf8proc_iterate(data + at, static_cast<utf8proc_ssize_t>(plain.size() - at), &code);
    if (length < 1) return std::nullopt;
    text += static_cast<char32_t>(code);
    at += static_cast<size_t>(length);
  }
  return text;
}

/// Puts 0xA0 back where it became a blank. A word of the one letter "à" keeps its blank beside it.
Text with_blanks_back(const Text& bytes) {
  static const Text kGoesOn[] = {U" ", U"quele", U"quela", U"quilo", U"s "};
  Text out;
  for (size_t at = 0; at < bytes.size(); ++at) {
    out += bytes[at];
    if (bytes[at] != 0xC3 || at + 1 == bytes.size() || bytes[at + 1] != U' ') continue;
    const auto rest = std::u32string_view(bytes).substr(at + 2);
    if (std::ranges::none_of(kGoesOn, [&](const auto& word) { return rest.starts_with(word); })) out += char32_t{0xA0};
  }
  return with_each(text_rules().altered, out, [](Text part) {
    std::ranges::replace(part, U' ', char32_t{0xA0});
    return part;
  });
}

/// The text whose bytes in UTF-8 were decoded by that encoding; none where it was not.
std::optional<Text> decoded_by(const Encoding& encoding, Text bytes) {
  static const Text kLost{0xEF, 0xBF, 0xBD};
  const auto& rules = text_rules();
  if (encoding.name != "macroman" && finds(rules.altered, bytes)) bytes = with_blanks_back(bytes);
  if (encoding.is_sloppy()) bytes = with_each(rules.lossy, bytes, [](const Text&) { return kLost; });
  return decoded(bytes);
}

Text with_encoding_mended(Text text);

/// Mends parts that look like characters in UTF-8 and are seldom meant.
Text with_parts_mended(const Text& text) {
  const auto& rules = text_rules();
  Text out;
  for (size_t at = 0; at < text.size();) {
    auto end = at;
    const bool may_begin = at == 0 || !rules.behind.holds(text[at - 1]);
    for (auto length = may_begin ? length_at(rules.sequences, text, end) : std::nullopt; length;
         length = length_at(rules.sequences, text, end))
      end += *length;
    const auto part = text.substr(at, std::max<size_t>(end - at, 1));
    const bool is_mended = end > at && part.size() < text.size() && finds(rules.bad, part);
    out += is_mended ? with_encoding_mended(part) : part;
    at += part.size();
  }
  return out;
}

/// Latin-1 read as Windows-1252; none where a control stands for nothing there.
std::optional<Text> from_latin(const Text& text) {
  auto read = without_latin_controls(text);
  return std::ranges::any_of(read, is_control_of_latin) ? std::nullopt : std::optional(read);
}

/// Takes back one decoding, if the text looks as if it were decoded wrongly.
Text with_one_decoding_back(const Text& text) {
  if (is_ascii(text) || !finds(text_rules().bad, text)) return text;
  for (const auto& encoding : text_rules().encodings) {
    auto bytes = encoding.encoded(text);
    if (!bytes) continue;
    if (auto found = decoded_by(encoding, std::move(*bytes))) return *found;
  }
  if (auto mended = with_parts_mended(text); mended != text) return mended;
  if (std::ranges::all_of(text, [](char32_t c) { return c < 0x100; })) {
    if (auto read = from_latin(text); read && *read != text) return *read;
  }
  return without_latin_controls(text);
}

Text with_encoding_mended(Text text) {
  for (Text before; before != text;) {
    before = text;
    text = with_one_decoding_back(before);
  }
  return text;
}

Text normalized(const Text& text, int options) {
  const auto plain = utf8_of(text);
  utf8proc_uint8_t* made = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(plain.data()), static_cast<utf8proc_ssize_t>(plain.size()),
                                   &made, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(made, std::free);
  if (length < 0) return text;
  return characters_of({reinterpret_cast<const char*>(made), static_cast<size_t>(length)});
}

/// A ligature or wide letter as what it is made of, and a quote that curls as a straight one.
Text plain_form(char32_t c) {
  const auto& ligatures = text_rules().ligatures;
  if (const auto parts = ligatures.find(c); parts != ligatures.end()) return parts->second;
  if (c == 0x3000) return U" ";
  if (c >= 0xFF01 && c < 0xFFF0) return normalized({c}, UTF8PROC_COMPOSE | UTF8PROC_COMPAT);
  if (c == 0x2BC || (c >= 0x2018 && c <= 0x201B)) return U"'";
  if (c >= 0x201C && c <= 0x201F) return U"\"";
  return {c};
}

Text in_plain_form(const Text& text) {
  Text out;
  for (const auto c : text) out += plain_form(c);
  return out;
}

Text with_line_breaks(const Text& text) {
  Text out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == U'\r' && at + 1 < text.size() && text[at + 1] == U'\n') continue;
    const bool breaks = text[at] == U'\r' || text[at] == 0x2028 || text[at] == 0x2029 || text[at] == 0x85;
    out += breaks ? U'\n' : text[at];
  }
  return out;
}

bool is_control(char32_t c) {
  return c < 0x09 || c == 0x0B || (c >= 0x0E && c < 0x20) || c == 0x7F || (c >= 0x206A && c < 0x2070) || c == 0xFEFF ||
         (c >= 0xFFF9 && c < 0xFFFD);
}

/// Counts the characters of a command to a terminal: ESC [, digits and semicolons, a letter; 0: none.
size_t command_at(const Text& text, size_t at) {
  if (text.compare(at, 2, U"\x1b[") != 0) return 0;
  const auto end = text.find_first_not_of(U"0123456789;", at + 2);
  const bool is_letter = end != text.npos && (text[end] | 0x20) >= U'a' && (text[end] | 0x20) <= U'z';
  return is_letter ? end + 1 - at : 0;
}

Text without_controls(const Text& text) {
  Text shown;
  for (size_t at = 0; at < text.size();) {
    const auto command = command_at(text, at);
    if (command == 0) shown += text[at];
    at += std::max<size_t>(command, 1);
  }
  std::erase_if(shown, is_control);
  return shown;
}

Text mended_line(Text text, bool unescapes) {
  for (Text before; before != text;) {
    before = text;
    if (unescapes) text = unescaped_with_semicolons(text);
    text = without_latin_controls(with_encoding_mended(text));
    text = without_controls(with_line_breaks(in_plain_form(text)));
    text = normalized(text, UTF8PROC_COMPOSE);
  }
  return text;
}

}  // namespace

std::u32string mended(const std::u32string& text) {
  Text out;
  bool unescapes = true;
  for (size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find(U'\n', at), text.size() - 1) + 1;
    const auto line = text.substr(at, end - at);
    unescapes = unescapes && line.find(U'<') == line.npos;  // what follows a tag is HTML, and kept
    out += mended_line(line, unescapes);
    at = end;
  }
  return out;
}

}  // namespace burnish::tokenizers
