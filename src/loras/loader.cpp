#include "loras/loader.h"

#include <algorithm>

#include "base/text.h"

namespace burnish::loras {

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
      if (load_part_) load_part_(name);
      else model_.components().load(name);
      loaded.names_.push_back(name);
      held_.push_back(name);
    }
  }
  return loaded;
}

/// Returns what to load of a component: what is wanted of it as one piece, or piece by piece beside what is held of it already, which the
/// one piece might hold again.
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

}  // namespace burnish::loras
