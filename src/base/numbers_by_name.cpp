#include "base/numbers_by_name.h"

#include <algorithm>
#include <cmath>

#include "base/input_error.h"
#include "base/number.h"
#include "base/pattern.h"
#include "base/text.h"

namespace burnish {

std::vector<std::string> split_numbers(std::string_view text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth <= 0) parts.emplace_back();
    else parts.back() += c;
  }
  std::erase_if(parts, [](const std::string& part) { return trim(part).empty(); });
  return parts;
}

NumbersByName::NumbersByName(const char* room, std::string option, std::string_view text, double least, double most)
    : room_(room), option_(std::move(option)) {
  for (const auto& part : split_numbers(text)) {
    auto equals = part.rfind('=');
    auto name = std::string(trim(std::string_view(part).substr(0, equals)));
    auto number = equals == part.npos ? std::string() : std::string(trim(std::string_view(part).substr(equals + 1)));
    const auto value = parse_number<double>(number);
    if (name.empty() || !value || *value < least)
      config_error(room_, "{} must be a comma list of name=number with numbers of at least {}, found '{}'", option_, least, trim(part));
    Entry entry{name, {}};
    entry.number = *value;
    if (entry.number > most) config_error(room_, "{}: numbers must be at most {}, found '{}'", option_, most, trim(part));
    entry.fits = [name, pattern = Pattern(room_, option_, name)](const std::string& path) {
      return lies_below(path, name) || pattern.matches(path);
    };
    entries_.push_back(std::move(entry));
  }
}

std::optional<double> NumbersByName::find(const std::vector<std::string>& paths) {
  std::optional<double> found;
  for (auto& entry : entries_) {
    if (std::ranges::none_of(paths, entry.fits)) continue;
    entry.fitted = true;
    found = entry.number;
  }
  return found;
}

void NumbersByName::check_all_fitted(std::string_view among) const {
  for (const auto& entry : entries_) {
    if (!entry.fitted)
      config_error(room_, "{}: '{}' fits nothing {}; name a component, a path in it or a regular expression for whole paths", option_,
                   entry.name, among);
  }
}

}  // namespace burnish
