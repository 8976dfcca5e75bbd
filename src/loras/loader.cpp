#include "loras/loader.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/log.h"
#include "base/text.h"

namespace burnish::loras {

LoraFile parse_lora_file(const std::string& text) {
  auto colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text)) return {text};
  try {
    size_t used = 0;
    auto strength = std::stod(text.substr(colon + 1), &used);
    if (used == text.size() - colon - 1) return {text.substr(0, colon), strength};
  } catch (const std::exception&) {
  }
  return {text};
}

Loader::Loader(models::Model& model, const std::vector<LoraFile>& files, std::vector<std::string> held)
    : model_(model), held_(std::move(held)) {
  for (const auto& file : files) loras_.push_back({file, read(model, file.path)});
}

Loader::Loaded::~Loaded() {
  for (const auto& name : names_) {
    loader_.model_.components().unload(name);
    std::erase(loader_.held_, name);
  }
}

Loader::Loaded Loader::load(const pipeline::Units& units) {
  Loaded loaded(*this);
  auto wanted = pipeline::models_of(units);
  for (const auto& component : pipeline::components_of(units)) {
    for (const auto& name : missing(component, wanted)) {
      model_.components().load(name);
      loaded.names_.push_back(name);
      held_.push_back(name);
      merge(name);
    }
  }
  return loaded;
}

/// What to load of a component: what is wanted of it as one piece, or piece by piece beside what is held of it already, which the one piece
/// might hold again.
std::vector<std::string> Loader::missing(const std::string& component, const std::vector<std::string>& wanted) const {
  auto is_held = [&](const auto& name) {
    return std::any_of(held_.begin(), held_.end(), [&](const auto& held) { return lies_below(name, held); });
  };
  std::vector<std::string> names;
  for (const auto& name : wanted) {
    if (pipeline::component_of(name) == component && !is_held(name)) names.push_back(name);
  }
  bool some_held = std::any_of(held_.begin(), held_.end(), [&](const auto& held) { return pipeline::component_of(held) == component; });
  if (names.empty() || some_held) return names;
  return {pipeline::common_part(names)};
}

void Loader::merge(const std::string& name) {
  for (const auto& [file, weights] : loras_) {
    auto it = weights.find(pipeline::component_of(name));
    if (it == weights.end()) continue;
    auto& root = model_.components().module(name);  // a part may hold some of the layers only
    std::set<std::string> paths;
    for (const auto& [path, layer] : adapters::all_layers(root)) paths.insert(path);
    std::vector<adapters::AdapterWeights> here;
    std::copy_if(it->second.begin(), it->second.end(), std::back_inserter(here), [&](const auto& w) { return paths.contains(w.path); });
    adapters::merge(root, here, file.strength, file.path);
    info("{}: {} layers of {} at strength {}", file.path, here.size(), name, file.strength);
  }
}

}  // namespace burnish::loras
