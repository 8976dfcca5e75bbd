#include "train/subject/component_trees.h"

namespace burnish::train {

const ComponentTree& ComponentTrees::of(const std::string& component) {
  auto [entry, is_new] = trees_.try_emplace(component);
  if (!is_new) return entry->second;
  if (model_->components().has(component)) entry->second.skeleton = model_->components().skeleton(component);
  entry->second.names = [&names = model_->names().of(component)](const std::string& path) { return names.target_names(path); };
  return entry->second;
}

std::string targets_of(const TrainedSettings& settings, const models::Model& model, const std::string& component) {
  return settings.targets ? *settings.targets : model.names().of(component).lora_targets;
}

}  // namespace burnish::train
