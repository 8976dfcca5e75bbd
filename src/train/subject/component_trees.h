#pragma once
#include <map>
#include <memory>
#include <string>

#include "models/model/model.h"
#include "train/subject/settings.h"

namespace burnish::train {

/// A component as its file headers have it.
struct ComponentTree {
  std::unique_ptr<nn::Module> skeleton;  ///< null while the files are not there
  adapters::AliasesOf names;             ///< by which targets call a layer
};

/// Makes the trees of a model's components, each once. The model must outlive it.
class ComponentTrees {
 public:
  explicit ComponentTrees(models::Model& model) : model_(&model) {}
  const ComponentTree& of(const std::string& component);

 private:
  models::Model* model_;
  std::map<std::string, ComponentTree> trees_;
};

/// Returns the targets of adapters on a component: those of the settings, or the family's own.
std::string targets_of(const TrainedSettings& settings, const models::Model& model, const std::string& component);

}  // namespace burnish::train
