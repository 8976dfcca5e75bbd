#pragma once
#include <memory>

#include "nn/module.h"

namespace burnish::nn {

using Tensors = std::vector<at::Tensor>;

class Block;

/// How a block's forward is carried out; implemented by `memory/` (recompute, paging). A runner calls `block.body`.
class BlockRunner {
 public:
  virtual ~BlockRunner() = default;
  virtual Tensors run(Block& block, const Tensors& inputs) = 0;
};

/// A cut point: one repeated block of a model. Recompute, paging, sharding and stage splitting work on a list of these
/// and on nothing else. `body` is a pure function of its inputs and the block's parameters: it writes nothing in place.
class Block : public Module {
 public:
  virtual Tensors body(const Tensors& inputs) = 0;
  Tensors run(const Tensors& inputs) { return runner ? runner->run(*this, inputs) : body(inputs); }
  std::shared_ptr<BlockRunner> runner;
};

/// The outermost blocks of a tree, in the order in which it names them.
std::vector<Block*> blocks_below(Module& root);

}  // namespace burnish::nn
