#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace burnish::nn {

class Block;

/// Stands in on its thread, for as long as it lives, for the bodies of blocks: a dry run's, which need not go through what it knows.
class BodyStandIn {
 public:
  BodyStandIn();
  virtual ~BodyStandIn();
  BodyStandIn(const BodyStandIn&) = delete;
  BodyStandIn& operator=(const BodyStandIn&) = delete;

  virtual std::vector<at::Tensor> run(Block& block, const std::vector<at::Tensor>& inputs) = 0;
  /// Returns the one of this thread; null where none lives.
  static BodyStandIn* current();

 private:
  BodyStandIn* before_;
};

/// Returns what the body of a Block gives, or what stands in for it: what runners call.
template <typename AnyBlock>
std::vector<at::Tensor> body_of(AnyBlock& block, const std::vector<at::Tensor>& inputs) {
  auto* stand_in = BodyStandIn::current();
  return stand_in == nullptr ? block.body(inputs) : stand_in->run(block, inputs);
}

}  // namespace burnish::nn
