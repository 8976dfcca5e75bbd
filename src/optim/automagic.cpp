#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include "optim/distance.h"
#include "optim/factored.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

class Automagic final : public UpdateRule {
 public:
  explicit Automagic(const AutomagicOptions& options) : options_(options), factor_(fp64(1)) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list = factored_slots("exp_avg_sq", parameter);
    list.push_back({"signs", zeros_for(parameter).to(at::kByte), 0});
    return list;
  }

  int64_t granule(int64_t numel) const override { return numel; }
  int64_t num_sums() const override { return 2; }

  void apply(const Batch& batch) override {
    factor_ = factor_.to(batch.values[0].device());
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto& value = batch.values[i].view(batch.shapes[i]);
      const auto gradient = batch.gradients[i].view(batch.shapes[i]);
      size_t place = 0;
      auto update = update_factored(batch.slots[i], place, gradient.square().add_(options_.eps), options_.beta2).mul_(gradient);
      clip_update(update, options_.clip_threshold);
      update.clamp_(-options_.clip_threshold, options_.clip_threshold);
      vote(batch.slots[i][place], update, batch.steps[i], batch.sums[i]);
      if (batch.weight_decay != 0) update.add_(value, batch.weight_decay);
      value.sub_(update.mul_(factor_ * batch.lr));
    }
  }

  /// The rate moves as far as the votes go, of all that could be given.
  void decide(const at::Tensor& sums) override {
    factor_ = factor_.to(sums.device());
    factor_ = factor_ * (sums[0] / sums[1].clamp_min(kSmallest)).exp();
  }

  at::Tensor learned_rate() const override { return factor_; }
  StateList state() const override { return {{"automagic.factor", factor_}}; }

 private:
  /// The last signs of a number are a byte, the newest in its lowest bit.
  void vote(at::Tensor signs, const at::Tensor& update, int64_t step, const at::Tensor& sums) const {
    const auto window = (1 << options_.polarity_history) - 1;
    signs.bitwise_left_shift_(1).bitwise_and_(window).bitwise_or_(update.gt(0).to(at::kByte));
    if (step < options_.polarity_history) return;
    const auto weight = update.abs().to(at::kDouble);
    const auto agree = signs.eq(window).logical_or_(signs.eq(0)).to(at::kDouble);
    const auto alternate = signs.eq(0x55 & window).logical_or_(signs.eq(0xAA & window)).to(at::kDouble);
    sums[0].add_((weight * (agree - alternate)).sum());
    sums[1].add_(weight.sum());
  }

  AutomagicOptions options_;
  at::Tensor factor_;
};

}  // namespace

RulePtr automagic(const AutomagicOptions& options) { return std::make_shared<Automagic>(options); }

}  // namespace burnish::optim
