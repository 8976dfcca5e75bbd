#pragma once
#include <memory>

#include "nn/module.h"

namespace burnish::nn {

using Tensors = std::vector<at::Tensor>;

class Block;

/// Gives each input a node of its own in the graph: it collects the gradients of all uses behind it before they meet those of others. So
/// they are summed in one order, whether what uses them is in this graph or is computed again in one of its own.
Tensors with_own_nodes(const Tensors& inputs);

/// A way to carry out a block's forward; implemented by `memory/` (recompute, paging). A runner calls `block.body`, or another runner that
/// it was given, in backward too: so runners compose.
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
  /// The body, as the runner carries it out. The gradients of an input that several blocks share are summed block by block, with any runner
  /// and without one, so that all give the same bits.
  Tensors run(const Tensors& inputs);
  std::shared_ptr<BlockRunner> runner;
};

/// The body, with nodes of its own in the graph for inputs, as a block without a runner is run: for runners that keep its graph.
Tensors run_body(Block& block, const Tensors& inputs);

/// The outermost blocks of a tree, in the order in which it names them.
std::vector<Block*> blocks_below(Module& root);

}  // namespace burnish::nn
