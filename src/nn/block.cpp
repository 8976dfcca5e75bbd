#include "nn/block.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/alias.h>

#include "nn/body_stand_in.h"

namespace burnish::nn {

Tensors with_own_nodes(const Tensors& inputs) {
  Tensors own;
  for (const auto& input : inputs) own.push_back(input.defined() && input.requires_grad() ? at::alias(input) : input);
  return own;
}

Tensors Block::run(const Tensors& inputs) {
  if (runner) return runner->run(*this, inputs);
  return run_body(*this, inputs);
}

Tensors run_body(Block& block, const Tensors& inputs) {
  return body_of(block, at::GradMode::is_enabled() ? with_own_nodes(inputs) : inputs);
}

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
