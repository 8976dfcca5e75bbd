#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace burnish::foreign {

/// The words of one command of a script, without quotes.
using Command = std::vector<std::string>;

namespace of_scripts {

/// Refuses variables that come to more text than a command line has: they can double themselves in every line.
void check_size(size_t size);
/// Puts a text in small letters.
std::string in_small(std::string_view text);
bool is_blank(char c);
/// Reads the name at the start of a text, "" for none.
std::string_view name_at(std::string_view text);

/// NAME= or NAME+= at the start of a word.
struct Assignment {
  std::string name;
  bool appends;
  std::string value;
};
std::optional<Assignment> assignment_of(std::string_view word);

/// Stands in a word for $ where that is a letter and begins no variable.
inline constexpr char kDollar = '\x01';
/// Returns a text in which $ is a letter, and a word with its letters.
std::string literal(std::string_view text);
std::string plain(std::string word);
/// Lists what a word takes of variables, arguments and commands that its script does not set: $X, ${X}, $(...), $@, %X%, !X!, @X.
std::vector<std::string> variables_in(std::string_view word);
/// Tells whether a word is nothing else.
bool is_variable(const std::string& word);

}  // namespace of_scripts
}  // namespace burnish::foreign
