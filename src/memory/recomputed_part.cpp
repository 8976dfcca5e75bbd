#include "memory/recomputed_part.h"

#include <utility>

#include "nn/recomputed_values.h"

namespace burnish::memory {

namespace {

/// Keeps the values of all calls but those that are named.
class KeepOthers final : public nn::Keeper {
 public:
  explicit KeepOthers(const std::set<size_t>& part) : recomputed_(part) {}
  std::optional<nn::Tensors> kept(const nn::Tensors& inputs, const nn::Compute& compute) override {
    if (recomputed_.contains(next_++)) return std::nullopt;
    return compute(inputs);
  }

 private:
  const std::set<size_t>& recomputed_;
  size_t next_ = 0;
};

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
