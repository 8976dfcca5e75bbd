#include "nn/block.h"

namespace burnish::nn {

std::vector<Block*> blocks_below(Module& root) {
  std::vector<Block*> blocks;
  std::string inside;  // path of the last block found
  root.visit([&](const std::string& path, Module& module) {
    auto* block = dynamic_cast<Block*>(&module);
    if (block == nullptr || (!blocks.empty() && path.starts_with(inside + "."))) return;
    blocks.push_back(block);
    inside = path;
  });
  return blocks;
}

}  // namespace burnish::nn
