#include "train/run/hooks/hooks.h"

namespace burnish::train {

std::vector<std::unique_ptr<Hook>> make_hooks(const Training& training) {
  std::vector<std::unique_ptr<Hook>> hooks;
  for (const auto& maker : kHookMakers) {
    if (!maker.on_all && !training.world.is_first()) continue;
    if (auto hook = maker.make(training)) hooks.push_back(std::move(hook));
  }
  return hooks;
}

}  // namespace burnish::train
