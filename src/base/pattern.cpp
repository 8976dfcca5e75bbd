#include "base/pattern.h"

#include <regex>
#include <string_view>

#include "base/input_error.h"

namespace burnish {

struct Pattern::Compiled {
  std::regex regex;
};

namespace {

constexpr size_t kMostCharacters = 1000;
constexpr int kMostLooks = 4;  // each inside another multiplies the time by the length of the name

int num_looks(const std::string& text) {
  int count = 0;
  for (const char* look : {"(?=", "(?!"}) {
    for (auto at = text.find(look); at != text.npos; at = text.find(look, at + 1)) ++count;
  }
  return count;
}

}  // namespace

Pattern::Pattern(const char* room, const std::string& option, const std::string& text) {
  if (text.size() > kMostCharacters || num_looks(text) > kMostLooks)
    config_error(room, "{}: a regular expression may have {} characters and {} looks ahead, and '{:.40}...' has {} and {}; make it shorter",
                 option, kMostCharacters, kMostLooks, text, text.size(), num_looks(text));
  try {
    // libstdc++'s matcher that follows all ways at once; the standard's default tries one after the other, which may never end.
    compiled_ = std::make_shared<Compiled>(std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial));
  } catch (const std::regex_error& error) {
    config_error(room, "{}: '{}' is neither a name nor a regular expression ({})", option, text, error.what());
  }
}

bool Pattern::matches(const std::string& name) const { return std::regex_match(name, compiled_->regex); }

std::string literally(const std::string& text) {
  std::string expression;
  for (const char c : text) {
    if (std::string_view(".[]()*+?{}|^$\\").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
}

}  // namespace burnish
