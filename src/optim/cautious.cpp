#include <ATen/TensorOperators.h>

#include <utility>

#include "optim/rules.h"

namespace burnish::optim {
namespace {

/// The least share of a parameter's numbers that an update is taken to hold: what is left of it grows no more than by its inverse.
constexpr double kLeastShare = 1e-3;

class Cautious final : public UpdateRule {
 public:
  explicit Cautious(RulePtr rule) : rule_(std::move(rule)) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override { return rule_->slots(parameter); }
  /// Returns what is left of an update is scaled by its share of the whole parameter.
  int64_t granule(int64_t numel) const override { return numel; }
  void begin(double lr) override { rule_->begin(lr); }
  bool looks_first() const override { return rule_->looks_first(); }
  void look(const Batch& batch) override { rule_->look(batch); }
  int64_t num_sums() const override { return rule_->num_sums(); }
  void decide(const at::Tensor& sums) override { rule_->decide(sums); }
  at::Tensor learned_rate() const override { return rule_->learned_rate(); }
  StateList state() const override { return rule_->state(); }

  /// Decay is apart from the update: the rule is run once without it, and the parameter shrinks as it would have.
  void apply(const Batch& batch) override {
    std::vector<at::Tensor> before;
    for (const auto& value : batch.values) before.push_back(value.clone());
    auto without_decay = batch;
    without_decay.weight_decay = 0;
    rule_->apply(without_decay);
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto update = batch.values[i] - before[i];
      const auto goes_down = update.mul(batch.gradients[i]).lt_(0);
      const auto left = update.mul_(goes_down).div_(goes_down.mean().clamp_min_(kLeastShare));
      batch.values[i].copy_(before[i].mul_(1 - batch.lr * batch.weight_decay).add_(left));
    }
  }

 private:
  RulePtr rule_;
};

}  // namespace

RulePtr cautious(RulePtr rule) { return std::make_shared<Cautious>(std::move(rule)); }

}  // namespace burnish::optim
