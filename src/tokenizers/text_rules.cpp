#include "tokenizers/text_rules.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <functional>
#include <stdexcept>

#include "base/text.h"
#include "tokenizers/text_rules_file.h"
#include "tokenizers/white_space.h"

namespace burnish::tokenizers {

namespace {

bool is_of_word(char32_t character) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(character));
  return character == U'_' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
         (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

/// Lines of blanks between their words, of which the first says what they are.
class Parser {
 public:
  explicit Parser(TextRules& rules) : rules_(rules) {}

  void read(const std::string& line) {
    const auto words = split_list(line, ' ');
    const auto found = kinds_.find(words.at(0));
    if (found == kinds_.end()) throw std::logic_error("mended_text.rules: nothing is called " + words[0]);
    found->second({words.begin() + 1, words.end()});
  }

 private:
  using Words = std::vector<std::string>;

  static char32_t code(const std::string& hex) { return static_cast<char32_t>(std::stoul(hex, nullptr, 16)); }

  /// "41,c0" as characters.
  static std::u32string text(const std::string& codes) {
    std::u32string text;
    for (const auto& hex : split_list(codes)) text += code(hex);
    return text;
  }

  /// "41-5a,c0" as a set.
  static CharacterSet set(const std::string& ranges) {
    CharacterSet set;
    for (const auto& range : split_list(ranges)) {
      const auto dash = range.find('-');
      const auto first = code(range.substr(0, dash));
      set.ranges.emplace_back(first, dash == range.npos ? first : code(range.substr(dash + 1)));
    }
    return set;
  }

  /// A set by its name, "!" before it for all others, or by its kind.
  CharacterSet named(const std::string& word) const {
    if (word.size() == 1) return {.kind = word[0]};
    const bool is_negated = word.starts_with('!');
    auto set = sets_.at(word.substr(is_negated ? 1 : 0));
    set.is_negated = is_negated;
    return set;
  }

  std::function<void(const Words&)> into(Sequences& sequences) {
    return [this, &sequences](const Words& words) {
      auto& sequence = sequences.emplace_back();
      for (const auto& word : words) sequence.push_back(named(word));
    };
  }
  static std::function<void(const Words&)> into(std::map<char32_t, std::u32string>& characters) {
    return [&characters](const Words& words) { characters[code(words.at(0))] = text(words.at(1)); };
  }
  static std::function<void(const Words&)> into(std::map<std::u32string, std::u32string>& names) {
    return [&names](const Words& words) { names[characters_of(words.at(0))] = text(words.at(1)); };
  }

  TextRules& rules_;
  std::map<std::string, CharacterSet> sets_;
  std::map<std::string, std::function<void(const Words&)>> kinds_{
      {"class", [this](const Words& words) { sets_[words.at(0)] = set(words.at(1)); }},
      {"bad", into(rules_.bad)},
      {"behind", [this](const Words& words) { rules_.behind = named(words.at(0)); }},
      {"sequence", into(rules_.sequences)},
      {"altered", into(rules_.altered)},
      {"lossy", into(rules_.lossy)},
      {"encoding",
       [this](const Words& words) {
         rules_.encodings.push_back({words.at(0), code(words.at(1)), text(words.at(2))});
       }},
      {"ligature", into(rules_.ligatures)},
      {"html", into(rules_.html)},
      {"capital", into(rules_.capitals)},
      {"reference", into(rules_.references)},
      {"unreferred", [this](const Words& words) { rules_.unreferred = set(words.at(0)); }}};
};

}  // namespace

bool CharacterSet::holds(char32_t character) const {
  if (kind == 'w') return is_of_word(character);
  if (kind == 's') return is_white_space(static_cast<int32_t>(character)) || (character >= 0x1C && character <= 0x1F);
  if (kind == '.') return character != U'\n';
  const auto behind = std::ranges::upper_bound(ranges, character, {}, &std::pair<char32_t, char32_t>::first);
  const bool is_in = behind != ranges.begin() && character <= std::prev(behind)->second;
  return is_in != is_negated;
}

std::optional<size_t> length_at(const Sequences& sequences, const std::u32string& text, size_t at) {
  for (const auto& sequence : sequences) {
    auto place = at;
    const bool fits = std::ranges::all_of(sequence, [&](const CharacterSet& set) {
      if (set.kind == '^') return place == 0;
      return place < text.size() && set.holds(text[place++]);
    });
    if (fits) return place - at;
  }
  return std::nullopt;
}

std::optional<std::u32string> Encoding::encoded(const std::u32string& text) const {
  std::u32string bytes;
  for (const auto character : text) {
    if (character == substitute) {
      bytes += char32_t{0x1A};
    } else if (character < 0x80 && character != 0x1A) {
      bytes += character;
    } else {
      const auto place = upper.find(character);
      if (place == upper.npos) return std::nullopt;
      bytes += static_cast<char32_t>(0x80 + place);
    }
  }
  return bytes;
}

TextRules parse_text_rules(std::string_view text) {
  TextRules rules;
  Parser parser(rules);
  for (const auto& line : split_list(std::string(text), '\n')) {
    if (!line.starts_with('#')) parser.read(line);
  }
  return rules;
}

const TextRules& text_rules() {
  static const TextRules rules = parse_text_rules(kTextRules);
  return rules;
}

std::u32string characters_of(std::string_view text) {
  std::u32string characters;
  while (!text.empty()) {
    utf8proc_int32_t code = 0;
    const auto length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()), &code);
    characters += length > 0 ? static_cast<char32_t>(code) : char32_t{0xFFFD};
    text.remove_prefix(length > 0 ? static_cast<size_t>(length) : 1);
  }
  return characters;
}

std::string utf8_of(const std::u32string& text) {
  std::string out;
  for (const auto character : text) {
    std::array<utf8proc_uint8_t, 4> bytes{};
    const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes.data());
    out.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(length));
  }
  return out;
}

}  // namespace burnish::tokenizers
