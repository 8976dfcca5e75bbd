#include "train/subject/experts_meant.h"

#include "base/numbers_by_name.h"
#include "base/text.h"

namespace burnish::train {

std::vector<std::string> meant_by(const std::string& name, const models::Model& model, const std::vector<models::Expert>& experts) {
  const auto& first = model.names().experts.front().component;
  const auto component = pipeline::component_of(name), rest = name.substr(component.size());
  std::vector<std::string> names;
  for (const auto& expert : experts) {
    if (!expert.component.starts_with(first)) continue;
    const auto own = component + expert.component.substr(first.size());
    if (model.names().components.contains(own) && model.components().has(own)) names.push_back(own + rest);
  }
  return names.empty() ? std::vector{name} : names;
}

std::string numbers_meant_by(const std::string& numbers, const models::Model& model, const std::vector<models::Expert>& experts) {
  std::vector<std::string> entries;
  for (const auto& entry : split_numbers(numbers)) {
    const auto equals = std::min(entry.rfind('='), entry.size());
    for (const auto& name : meant_by(entry.substr(0, equals), model, experts)) entries.push_back(name + entry.substr(equals));
  }
  return join(entries, ",");
}

}  // namespace burnish::train
