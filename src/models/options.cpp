#include "models/options.h"

#include <fmt/core.h>

#include "base/limits.h"

namespace burnish::models {

OptionValues::OptionValues(std::initializer_list<std::pair<const std::string, OptionValue>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

OptionValues::OptionValues(const std::vector<Option>& options) {
  for (const auto& option : options) add(option);
}

void OptionValues::add(const Option& option) {
  entries_.try_emplace(option.name, Entry{option.otherwise, option.otherwise, option.when_drawing});
}

void OptionValues::begin_with_drawing() {
  for (auto& [name, entry] : entries_) {
    if (!entry.when_drawing) continue;
    entry.value = *entry.when_drawing;
    entry.otherwise = std::exchange(entry.when_drawing, std::nullopt);
  }
}

bool OptionValues::is_given(const Option& option) const {
  auto found = entries_.find(option.name);
  return found != entries_.end() && found->second.value != found->second.otherwise.value_or(option.otherwise);
}

std::string why_negative(const std::string& name, const OptionValue& value) {
  auto number = std::get<int64_t>(value);
  return number < 0 ? fmt::format("{} must be at least 0, not {}", name, number) : "";
}

std::string why_no_token_count(const std::string& name, const OptionValue& value) {
  auto number = std::get<int64_t>(value);
  return number > kMostTokens ? fmt::format("{} must be at most {}, not {}", name, kMostTokens, number) : why_negative(name, value);
}

}  // namespace burnish::models
