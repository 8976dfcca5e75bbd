#include "foreign/script_words.h"

#include <algorithm>
#include <cctype>

#include "base/input_error.h"

namespace burnish::foreign::of_scripts {

namespace {

/// The size that variables may come to in all.
constexpr size_t kMostText = 1 << 20;

}  // namespace

void check_size(size_t size) {
  if (size > kMostText) data_error("import", "the script's variables grow beyond {} characters, which no command line has", kMostText);
}

std::string in_small(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return std::tolower(c); });
  return small;
}

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_first_of_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// The name at the start of a text, "" for none.
std::string_view name_at(std::string_view text) {
  if (text.empty() || !is_first_of_name(text[0])) return {};
  size_t size = 1;
  while (size < text.size() && is_of_name(text[size])) ++size;
  return text.substr(0, size);
}

std::optional<Assignment> assignment_of(std::string_view word) {
  auto name = name_at(word);
  auto rest = word.substr(name.size());
  bool appends = rest.starts_with("+=");
  if (name.empty() || !(appends || rest.starts_with("="))) return {};
  return Assignment{std::string(name), appends, std::string(rest.substr(appends ? 2 : 1))};
}

std::string literal(std::string_view text) {
  std::string word(text);
  std::ranges::replace(word, '$', kDollar);
  return word;
}
std::string plain(std::string word) {
  std::ranges::replace(word, kDollar, '$');
  return word;
}

namespace {

/// Returns how much of the start of a text is a variable of a shell, PowerShell or a batch file; 0 for none.
size_t size_of_variable(std::string_view text) {
  if (text[0] == '%' || text[0] == '!') {
    const auto name = name_at(text.substr(1));
    return !name.empty() && text.substr(1 + name.size()).starts_with(text[0]) ? name.size() + 2 : 0;
  }
  if (text[0] != '$' || text.size() < 2) return 0;
  if (text[1] == '@' || text[1] == '*') return 2;
  const char closing = text[1] == '{' ? '}' : text[1] == '(' ? ')' : '\0';
  if (closing == '\0') return name_at(text.substr(1)).empty() ? 0 : 1 + name_at(text.substr(1)).size();
  return std::min(text.find(closing), text.size() - 1) + 1;
}

}  // namespace

std::vector<std::string> variables_in(std::string_view word) {
  if (word.starts_with('@') && !word.substr(1).empty() && name_at(word.substr(1)).size() == word.size() - 1) return {std::string(word)};
  std::vector<std::string> variables;
  for (size_t at = 0; at < word.size();) {
    const auto size = size_of_variable(word.substr(at));
    if (size > 0) variables.emplace_back(word.substr(at, size));
    at += std::max<size_t>(size, 1);
  }
  return variables;
}

bool is_variable(const std::string& word) {
  const auto variables = variables_in(word);
  return variables.size() == 1 && variables[0] == word;
}

}  // namespace burnish::foreign::of_scripts
