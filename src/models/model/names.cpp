#include "models/model/names.h"

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>

#include "base/text.h"
#include "pipeline/unit.h"

namespace burnish::models {

std::vector<std::string> ComponentNames::foreign_layer(const std::string& name) const {
  auto it = foreign_layers.find(name);
  return it == foreign_layers.end() ? std::vector<std::string>{} : it->second;
}

std::vector<std::string> ComponentNames::target_names(const std::string& path) const {
  return aliases ? aliases(path) : std::vector<std::string>{};
}

ComponentNames plain_names(const std::string& component) { return {.layers = {"", component + ".", "lora_" + component + "_"}}; }

std::string Names::why_too_many(int64_t num_references) const {
  if (references.most == 0 || num_references <= references.most) return "";
  return fmt::format("{} reference pictures, of which {} sees {} at most", num_references, variant, references.most);
}

const Expert* Names::expert_of(const std::string& component) const {
  auto it = std::ranges::find(experts, component, &Expert::component);
  if (it == experts.end()) return away && away->component == component ? &*away : nullptr;
  return &*it;
}

std::vector<std::string> Names::denoisers() const {
  std::vector<std::string> components;
  for (const auto& expert : experts) components.push_back(expert.component);
  return components;
}

size_t Names::expert_at(double share) const {
  auto it = std::ranges::find_if(experts, [&](const auto& expert) { return expert.stretch.has(share); });
  if (it == experts.end()) throw std::logic_error("no expert of the family " + family + " predicts at that noise");
  return static_cast<size_t>(it - experts.begin());
}

bool Names::is_without_gradient(const std::string& parameter) const {
  auto component = pipeline::component_of(parameter);
  const auto& parts = of(component).without_gradient;
  return std::any_of(parts.begin(), parts.end(), [&](const auto& part) { return lies_below(parameter, component + "." + part); });
}

const ComponentNames& Names::of(const std::string& component) const {
  auto it = components.find(pipeline::component_of(component));
  if (it == components.end()) throw std::logic_error("the family " + family + " has no names for the component " + component);
  return it->second;
}

std::map<std::string, std::vector<int64_t>> Names::shapes() const {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const auto& [name, value] : values) {
    if (!value.shape.empty()) shapes[name] = value.shape;
  }
  return shapes;
}

std::map<std::string, DiffsynthValue> Names::diffsynth_values() const {
  std::map<std::string, DiffsynthValue> theirs;
  for (const auto& [name, value] : values) {
    if (!value.diffsynth.name.empty()) theirs[name] = value.diffsynth;
  }
  return theirs;
}

std::vector<std::string> Names::prompt_values() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    if (value.of_prompt) names.push_back(name);
  }
  return names;
}

std::set<std::string> Names::padded_values() const {
  std::set<std::string> names;
  for (const auto& [name, value] : values) {
    if (value.padded) names.insert(name);
  }
  return names;
}

}  // namespace burnish::models
