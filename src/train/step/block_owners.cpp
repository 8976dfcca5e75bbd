#include "train/step/block_owners.h"

#include <algorithm>

#include "base/text.h"
#include "dist/owners.h"

namespace burnish::train {

BlockOwners::BlockOwners(const Subject& subject, const std::string& component, const std::string& part, int64_t num_processes) {
  const auto whole = subject.chosen.whole_paths();
  if (!whole.contains(component)) return;
  auto trains = [&](const std::string& path) {
    return std::ranges::any_of(whole.at(component), [&](const auto& of) { return lies_below(path, of); });
  };
  const auto& components = subject.model->components();
  const auto& recipe = *components.find(part);
  const auto tree = components.skeleton(part);
  std::map<const nn::Module*, std::string> paths;
  tree->visit([&](const std::string& path, nn::Module& module) { paths[&module] = path; });
  std::vector<std::string> names;
  std::vector<int64_t> numels;
  for (auto* block : recipe.blocks ? recipe.blocks(*tree) : nn::blocks_below(*tree)) {
    const auto path = paths.at(block);
    blocks_.push_back(component + "." + path);
    // What has its name below the block's need not be run by it, such as modulation that is a part of its own.
    block->visit_parameters([&](const std::string& below, at::Tensor& parameter) {
      if (!trains(path + "." + below)) return;
      names.push_back(blocks_.back() + "." + below);
      numels.push_back(parameter.numel());
    });
  }
  const auto owners = dist::owners_of(numels, num_processes);
  for (size_t i = 0; i < names.size(); ++i) owners_[names[i]] = owners[i];
}

std::optional<int64_t> BlockOwners::find(const std::string& parameter) const {
  const auto found = owners_.find(parameter);
  return found == owners_.end() ? std::nullopt : std::optional(found->second);
}

memory::OwnerOf BlockOwners::of(size_t number) const {
  if (owners_.empty()) return {};
  return [this, block = blocks_.at(number)](const std::string& name) { return find(block + "." + name); };
}

}  // namespace burnish::train
