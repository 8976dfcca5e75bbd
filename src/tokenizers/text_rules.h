#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The rules of mended_text.rules, by which captions are mended: characters, bytes and names. Bytes are held as characters below 256.
namespace burnish::tokenizers {

/// A set of characters; of kind 'w' that of letters, digits and _, 's' white space, '.' all but a line's end, and '^' the start of a text,
/// where no character stands.
struct CharacterSet {
  std::vector<std::pair<char32_t, char32_t>> ranges = {};  ///< rising, with both ends in them
  bool is_negated = false;
  char kind = ' ';

  bool holds(char32_t character) const;
};

/// A pattern of characters that stand one behind the other, each of a set.
using Sequence = std::vector<CharacterSet>;
using Sequences = std::vector<Sequence>;

/// Returns the length of what the first of the sequences that fits has at a place of the text; none where none fits.
std::optional<size_t> length_at(const Sequences& sequences, const std::u32string& text, size_t at);

/// An encoding with a byte a character, of which those from 0x80 on are in the table.
struct Encoding {
  std::string name;
  char32_t substitute = 0x1A;  ///< what the byte 0x1A stands for; where that is U+FFFD, bytes that stand for nothing are controls
  std::u32string upper = {};   ///< what the bytes from 0x80 on stand for

  bool is_sloppy() const { return substitute != 0x1A; }
  /// Returns the bytes of a text; none where a character of it has no byte.
  std::optional<std::u32string> encoded(const std::u32string& text) const;
};

struct TextRules {
  Sequences bad;        ///< what is seldom meant, so that a text with it was decoded wrongly
  CharacterSet behind;  ///< characters behind which no `sequence` begins
  Sequences sequences;  ///< what the bytes of one character in UTF-8 look like in another encoding
  Sequences altered;    ///< bytes of UTF-8 of which 0xA0 became a blank
  Sequences lossy;      ///< bytes of UTF-8 of which one was lost
  std::vector<Encoding> encodings;
  std::map<char32_t, std::u32string> ligatures;
  std::map<std::u32string, std::u32string> html;      ///< HTML's names, with their semicolon, and without it where HTML allows that
  std::map<std::u32string, std::u32string> capitals;  ///< names in capitals that are none of HTML's
  std::map<char32_t, std::u32string> references;      ///< what numbers of characters stand for that are not what they say
  CharacterSet unreferred;                            ///< characters that numbers do not stand for
};

/// The rules that are built in.
const TextRules& text_rules();

/// Reads rules of such a file; std::logic_error for a line that is none.
TextRules parse_text_rules(std::string_view text);

/// Returns the characters of a text in UTF-8, U+FFFD for a byte that is none, and the other way round.
std::u32string characters_of(std::string_view text);
std::string utf8_of(const std::u32string& text);

}  // namespace burnish::tokenizers
