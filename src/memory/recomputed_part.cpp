#include "memory/recomputed_part.h"

#include <utility>

#include "memory/keep_others.h"

namespace burnish::memory {

namespace {

class KeepingRunner final : public nn::BlockRunner {
 public:
  KeepingRunner(std::set<size_t> part, std::shared_ptr<nn::BlockRunner> inner) : recomputed_(std::move(part)), inner_(std::move(inner)) {}
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    KeepOthers keeper(recomputed_);
    return inner_ ? inner_->run(block, inputs) : nn::run_body(block, inputs);
  }

 private:
  std::set<size_t> recomputed_;
  std::shared_ptr<nn::BlockRunner> inner_;
};

}  // namespace

std::shared_ptr<nn::BlockRunner> recomputing(const RecomputedPart& part, std::shared_ptr<nn::BlockRunner> inner,
                                             std::shared_ptr<Checkpoints> checkpoints) {
  if (part.values) inner = std::make_shared<KeepingRunner>(*part.values, std::move(inner));
  return part.whole ? recompute(std::move(inner), std::move(checkpoints)) : inner;
}

}  // namespace burnish::memory
