#include "models/model/options.h"

namespace burnish::models {

OptionValues::OptionValues(std::initializer_list<std::pair<const std::string, OptionValue>> values) {
  for (const auto& [name, value] : values) set(name, value);
}

OptionValues::OptionValues(const std::vector<Option>& options) {
  for (const auto& option : options) add(option);
}

void OptionValues::add(const Option& option) {
  auto [it, is_new] = entries_.try_emplace(option.name, OptionState{option.otherwise, option.otherwise, option.when_drawing});
  auto& entry = it->second;
  if (is_new || !option.when_drawing || entry.is_asked) return;
  if (entry.when_drawing) entry.when_drawing = option.when_drawing;
  else if (entry.value == entry.otherwise) entry.value = *(entry.otherwise = option.when_drawing);
}

void OptionValues::set(const std::string& name, OptionValue value) {
  auto& entry = entries_[name];
  entry.value = std::move(value);
  entry.is_asked = true;
}

void OptionValues::ask(const std::string& name) {
  if (auto found = entries_.find(name); found != entries_.end()) found->second.is_asked = true;
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
