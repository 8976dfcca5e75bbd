#include "memory/again.h"

#include <utility>

#include "nn/remade.h"

namespace burnish::memory {

namespace {

/// Keeps the values of all calls but those that are named.
class KeepOthers final : public nn::Keeper {
 public:
  explicit KeepOthers(const std::set<size_t>& again) : again_(again) {}
  std::optional<nn::Tensors> kept(const nn::Tensors& inputs, const nn::Compute& compute) override {
    if (again_.contains(next_++)) return std::nullopt;
    return compute(inputs);
  }

 private:
  const std::set<size_t>& again_;
  size_t next_ = 0;
};

class KeepingRunner final : public nn::BlockRunner {
 public:
  KeepingRunner(std::set<size_t> again, std::shared_ptr<nn::BlockRunner> inner) : again_(std::move(again)), inner_(std::move(inner)) {}
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    KeepOthers keeper(again_);
    return inner_ ? inner_->run(block, inputs) : nn::run_body(block, inputs);
  }

 private:
  std::set<size_t> again_;
  std::shared_ptr<nn::BlockRunner> inner_;
};

}  // namespace

std::shared_ptr<nn::BlockRunner> computing_again(const Again& again, std::shared_ptr<nn::BlockRunner> inner,
                                                 std::shared_ptr<Checkpoints> checkpoints) {
  if (again.values) inner = std::make_shared<KeepingRunner>(*again.values, std::move(inner));
  return again.whole ? recompute(std::move(inner), std::move(checkpoints)) : inner;
}

}  // namespace burnish::memory
