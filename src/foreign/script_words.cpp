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

}  // namespace burnish::foreign::of_scripts
