#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sign.h>

#include "optim/rules.h"

namespace burnish::optim {
namespace {

class Lion final : public UpdateRule {
 public:
  explicit Lion(const LionOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override { return {{"exp_avg", zeros_for(parameter)}}; }

  void apply(const Batch& batch) override {
    const auto& [beta1, beta2] = options_;
    const auto exp_avg = batch.slot(0);
    at::_foreach_mul_(batch.values, 1 - batch.lr * batch.weight_decay);
    auto updates = at::_foreach_mul(exp_avg, beta1);
    at::_foreach_add_(updates, batch.gradients, 1 - beta1);
    at::_foreach_sign_(updates);
    at::_foreach_add_(batch.values, updates, -batch.lr);
    at::_foreach_mul_(exp_avg, beta2);
    at::_foreach_add_(exp_avg, batch.gradients, 1 - beta2);
  }

 private:
  LionOptions options_;
};

}  // namespace

RulePtr lion(const LionOptions& options) { return std::make_shared<Lion>(options); }

}  // namespace burnish::optim
