#pragma once
#include <string_view>

namespace burnish::foreign {

/// A heading of a file of rows (docs/decisions/0086), and what the rows below it have beside their name.
struct RowHeading {
  std::string_view word;
  bool has_sentence;  ///< behind the word
  bool has_ours, has_value;
};
inline constexpr RowHeading kRowHeadings[]{{"carried", false, true, false},  {"switch", false, true, true},
                                           {"words", true, true, true},      {"no_place", true, false, false},
                                           {"needless", true, false, false}, {"looked_at", false, false, false}};

/// A line of such a file, cut into its parts, which are views of it: a heading "no_place: SENTENCE" or "carried where CONDITION", or behind
/// two blanks a row "NAME -> OURS VALUE = DEFAULT". An empty line and one that begins with # have none.
struct RowLine {
  const RowHeading* heading = nullptr;  ///< of a heading
  std::string_view condition, sentence;
  std::string_view name, ours;        ///< of a row
  std::string_view value, otherwise;  ///< JSON
  std::string_view problem;           ///< what is wrong with the line; empty for nothing

  constexpr bool is_row() const { return !name.empty(); }
};

constexpr RowLine read_heading(std::string_view line) {
  RowLine parts;
  const auto colon = line.find(": ");
  if (colon != line.npos) parts.sentence = line.substr(colon + 2);
  line = line.substr(0, colon);
  if (const auto where = line.find(" where "); where != line.npos) {
    parts.condition = line.substr(where + 7);
    line = line.substr(0, where);
  }
  for (const auto& heading : kRowHeadings) {
    if (heading.word == line) parts.heading = &heading;
  }
  if (!parts.heading)
    parts.problem = "expected a heading, carried, switch, words, no_place, needless or looked_at, or a row behind two blanks";
  else if (parts.sentence.empty() == parts.heading->has_sentence)
    parts.problem = parts.heading->has_sentence ? "expected a sentence behind ': '" : "this heading has no sentence";
  return parts;
}

/// A row, without the blanks before it; `above` is the heading that it stands under.
constexpr RowLine read_row(std::string_view line, const RowHeading& above) {
  RowLine parts;
  if (const auto equals = line.rfind(" = "); equals != line.npos) {
    parts.otherwise = line.substr(equals + 3);
    line = line.substr(0, equals);
  }
  const auto arrow = line.find(" -> ");
  parts.name = line.substr(0, arrow);
  if (arrow != line.npos) {
    const auto target = line.substr(arrow + 4);
    const auto blank = target.find(' ');
    parts.ours = target.substr(0, blank);
    if (blank != target.npos) parts.value = target.substr(blank + 1);
  }
  if (parts.name.empty() || parts.name.find(' ') != line.npos)
    parts.problem = "expected a name, with ' -> ' or ' = ' behind it where more follows";
  else if (parts.ours.empty() == above.has_ours)
    parts.problem = above.has_ours ? "expected -> and our option" : "rows of this heading have no option of ours";
  else if (parts.value.empty() == above.has_value)
    parts.problem = above.has_value ? "expected a value behind our option" : "expected our option alone behind ->";
  return parts;
}

/// Reads a line without its end; `above` is the last heading before it, null for none.
constexpr RowLine read_row_line(std::string_view line, const RowHeading* above) {
  RowLine parts;
  if (line.empty() || line.starts_with('#')) return parts;
  if (line.ends_with(' ')) parts.problem = "ends in a blank";
  else if (!line.starts_with("  ")) parts = read_heading(line);
  else if (!above) parts.problem = "a row has no heading above it";
  else parts = read_row(line.substr(2), *above);
  return parts;
}

/// The number of the first line with a problem, 0 where there is none: a file that is built in is looked at when it is compiled.
constexpr int malformed_line(std::string_view text) {
  const RowHeading* above = nullptr;
  for (int number = 1; !text.empty(); ++number) {
    const auto line = text.substr(0, text.find('\n'));
    const auto parts = read_row_line(line, above);
    if (!parts.problem.empty()) return number;
    if (parts.heading) above = parts.heading;
    text.remove_prefix(line.size() == text.size() ? line.size() : line.size() + 1);
  }
  return 0;
}

}  // namespace burnish::foreign
