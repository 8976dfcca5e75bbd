#pragma once
#include <memory>

#include "memory/alike.h"
#include "nn/block.h"
#include "nn/body_stand_in.h"

namespace burnish::memory {

struct Books;
struct BodyTable;

/// Goes through bodies of blocks that are alike once, in a dry run: blocks of one class and shape, held and trained in one way, that are
/// given tensors of one shape take and free the same memory in the same order. The others get it by what is written down, forward and
/// backward each (decision 0108).
///
/// Each body has a graph of its own, behind one node of the graph outside, so that its backward is gone through only where it is not known.
/// Additions to parameters' gradients are never repeated: what hangs on them runs for every parameter.
///
/// Blocks differ by what the tree of their modules shows: classes, tensors, sources of weights and adapters. A module that computes
/// otherwise for another reason says so by nn::Unlike.
class Repeats final : public nn::BodyStandIn {
 public:
  Repeats(std::shared_ptr<Books> books, std::shared_ptr<KnownBodies> known);
  ~Repeats() override;

  /// Makes a block known, as it is from here on. `trained` are all tensors in it that take gradients.
  void know(nn::Block& block, const TrainedTensors& trained);
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override;
  bool is_exact() const;

 private:
  std::shared_ptr<BodyTable> table_;
};

}  // namespace burnish::memory
