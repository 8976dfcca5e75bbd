#include "foreign/script_branches.h"

#include <algorithm>

#include "base/number.h"
#include "foreign/script_words.h"

namespace burnish::foreign::of_scripts {

Runs both(Runs a, Runs b) {
  if (a == Runs::no || b == Runs::no) return Runs::no;
  return a == Runs::yes && b == Runs::yes ? Runs::yes : Runs::perhaps;
}
Runs opposite(Runs a) { return a == Runs::yes ? Runs::no : a == Runs::no ? Runs::yes : a; }

/// Compares as tests of a shell and of a batch file do.
Runs compared(const std::string& a, const std::string& relation, const std::string& b) {
  auto of = [](bool holds) { return holds ? Runs::yes : Runs::no; };
  if (relation == "==" || relation == "=") return of(a == b);
  if (relation == "!=") return of(a != b);
  auto left = parse_number<double>(a), right = parse_number<double>(b);
  if (!left || !right) return Runs::perhaps;
  auto word = in_small(relation);
  if (!word.empty() && word[0] == '-') word.erase(0, 1);
  if (word == "eq" || word == "equ") return of(*left == *right);
  if (word == "ne" || word == "neq") return of(*left != *right);
  if (word == "gt" || word == "gtr") return of(*left > *right);
  if (word == "ge" || word == "geq") return of(*left >= *right);
  if (word == "lt" || word == "lss") return of(*left < *right);
  return word == "le" || word == "leq" ? of(*left <= *right) : Runs::perhaps;
}

/// A test's words, without its brackets.
Runs tested(Command words) {
  if (!words.empty() && (words[0] == "[" || words[0] == "[[" || words[0] == "test")) words.erase(words.begin());
  if (!words.empty() && (words.back() == "]" || words.back() == "]]")) words.pop_back();
  auto is_open = [](const std::string& word) { return word.find('$') != word.npos; };  // what the script does not set
  if (std::ranges::any_of(words, is_open)) return Runs::perhaps;
  if (!words.empty() && words[0] == "!") return opposite(tested({words.begin() + 1, words.end()}));
  if (words.empty()) return Runs::no;
  if (words.size() == 1) return words[0].empty() || words[0] == "-n" ? Runs::no : Runs::yes;  // -n of a word that came to nothing
  if (words.size() == 2 && (words[0] == "-n" || words[0] == "-z")) return words[1].empty() == (words[0] == "-z") ? Runs::yes : Runs::no;
  return words.size() == 3 ? compared(words[0], words[1], words[2]) : Runs::perhaps;
}

}  // namespace burnish::foreign::of_scripts
