#include "base/pattern.h"

#include <map>
#include <mutex>
#include <regex>
#include <string_view>
#include <unordered_map>

#include "base/input_error.h"

namespace burnish {

/// An expression with its answers: matching a layer's name takes longer than the rest of what is planned of that layer, and a planner asks
/// for the same names some dozens of times.
struct Pattern::Compiled {
  // libstdc++'s matcher that follows all ways at once; the standard's default tries one after the other, which may never end.
  explicit Compiled(const std::string& text) : regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial) {}

  bool matches(const std::string& name) {
    const std::lock_guard lock(mutex);
    const auto [answer, is_new] = answers.try_emplace(name);
    if (is_new) answer->second = std::regex_match(name, regex);
    return answer->second;
  }

  std::regex regex;
  std::mutex mutex;
  std::unordered_map<std::string, bool> answers;  ///< names of layers, of which a process knows some thousands
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
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Compiled>> known;  // by their text: a model that is opened anew asks the same
  const std::lock_guard lock(mutex);
  auto& compiled = known[text];
  try {
    if (!compiled) compiled = std::make_shared<Compiled>(text);
  } catch (const std::regex_error& error) {
    config_error(room, "{}: '{}' is neither a name nor a regular expression ({})", option, text, error.what());
  }
  compiled_ = compiled;
}

bool Pattern::matches(const std::string& name) const { return compiled_->matches(name); }

std::string literally(const std::string& text) {
  std::string expression;
  for (const char c : text) {
    if (std::string_view(".[]()*+?{}|^$\\").find(c) != std::string_view::npos) expression += '\\';
    expression += c;
  }
  return expression;
}

}  // namespace burnish
