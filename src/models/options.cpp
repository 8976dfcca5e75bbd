#include "models/options.h"

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

}  // namespace burnish::models
