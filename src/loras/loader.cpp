#include "loras/loader.h"

#include <algorithm>

#include "base/text.h"

namespace burnish::loras {

Loader::Loaded::~Loaded() {
  blocks_.reset();
  for (const auto& name : names_) {
    loader_.model_.components().unload(name);
    std::erase(loader_.held_, name);
  }
}

bool Loader::Loaded::run(int64_t count, const std::function<void(int64_t)>& work, const std::function<bool()>& goes_on) {
  if (blocks_) return blocks_->run(count, work, goes_on);
  for (int64_t i = 0; i < count; ++i) {
    if (goes_on && !goes_on()) return false;
    work(i);
  }
  return true;
}

Loader::Loaded Loader::load(const pipeline::Units& units, const std::set<std::string>& by_block) {
  Loaded loaded(*this);
  auto wanted = pipeline::models_of(units);
  for (const auto& component : pipeline::components_of(units)) {
    for (const auto& name : missing(component, wanted)) {
      if (by_block.contains(name) && !loaded.blocks_ && !is_merged_anew(name))
        loaded.blocks_ = std::make_unique<models::BlockByBlock>(model_.components(), name);
      else if (load_part_) load_part_(name);
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
