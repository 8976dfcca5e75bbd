#include "train/hooks/hooks.h"

namespace burnish::train {

std::vector<std::unique_ptr<Hook>> make_hooks(const Training& training) {
  std::vector<std::unique_ptr<Hook>> hooks;
  for (auto* make : kHookMakers) {
    if (auto hook = make(training)) hooks.push_back(std::move(hook));
  }
  return hooks;
}

}  // namespace burnish::train
