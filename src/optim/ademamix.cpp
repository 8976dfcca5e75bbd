#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>

#include "optim/coded_averages.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

/// The averages of one stretch: of gradients, fast and slow, and of their squares.
struct Averages {
  at::Tensor fast, slow, squares;
};

/// A factor that rises evenly to all of `alpha`.
double alpha_at(const AdEMAMixOptions& o, int64_t step) {
  return o.t_alpha == 0 ? o.alpha : std::min(1.0, static_cast<double>(step) / static_cast<double>(o.t_alpha)) * o.alpha;
}

/// The slow average's decay rises from the fast one's so that the time for which a gradient counts grows evenly.
double beta3_at(const AdEMAMixOptions& o, int64_t step) {
  if (o.t_beta3 == 0) return o.beta3;
  const double share = static_cast<double>(step) / static_cast<double>(o.t_beta3), fast = std::log(o.beta1), slow = std::log(o.beta3);
  return std::min(o.beta3, std::exp(fast * slow / ((1 - share) * slow + share * fast)));
}

void update(const AdEMAMixOptions& o, const Batch& batch, size_t i, const Averages& averages) {
  const at::Tensor &value = batch.values[i], &gradient = batch.gradients[i];
  const auto step = batch.steps[i];
  const double beta3 = beta3_at(o, step), correction1 = 1 - std::pow(o.beta1, step), correction2 = std::sqrt(1 - std::pow(o.beta2, step));
  averages.fast.mul_(o.beta1).add_(gradient, 1 - o.beta1);
  averages.slow.mul_(beta3).add_(gradient, 1 - beta3);
  averages.squares.mul_(o.beta2).addcmul_(gradient, gradient, 1 - o.beta2);
  const at::Tensor mixed = averages.fast.div(correction1).add_(averages.slow, alpha_at(o, step));
  value.mul_(1 - batch.lr * batch.weight_decay);
  value.addcdiv_(mixed, averages.squares.sqrt().div_(correction2).add_(o.eps), -batch.lr);
}

class AdEMAMix final : public UpdateRule {
 public:
  explicit AdEMAMix(const AdEMAMixOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    return {{"exp_avg", zeros_for(parameter)}, {"exp_avg_slow", zeros_for(parameter)}, {"exp_avg_sq", zeros_for(parameter)}};
  }

  void apply(const Batch& batch) override {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto& slots = batch.slots[i];
      update(options_, batch, i, {slots[0], slots[1], slots[2]});
    }
  }

 private:
  AdEMAMixOptions options_;
};

class AdEMAMix8bit final : public UpdateRule {
 public:
  explicit AdEMAMix8bit(const AdEMAMixOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list;
    for (const char* name : {"exp_avg", "exp_avg_slow", "exp_avg_sq"}) CodedAverages::add_slots(name, parameter, list);
    return list;
  }

  int64_t granule(int64_t /*numel*/) const override { return CodedAverages::kBlock; }

  void apply(const Batch& batch) override {
    const auto device = batch.values[0].device();
    const auto &of_sign = averages_.map(device, true), &of_none = averages_.map(device, false);
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto& slots = batch.slots[i];
      const Averages exact{CodedAverages::decode(of_sign, slots[0], slots[1]), CodedAverages::decode(of_sign, slots[2], slots[3]),
                           CodedAverages::decode(of_none, slots[4], slots[5])};
      update(options_, batch, i, exact);
      CodedAverages::encode(of_sign, exact.fast, slots[0], slots[1]);
      CodedAverages::encode(of_sign, exact.slow, slots[2], slots[3]);
      CodedAverages::encode(of_none, exact.squares, slots[4], slots[5]);
    }
  }

 private:
  AdEMAMixOptions options_;
  CodedAverages averages_;
};

}  // namespace

RulePtr ademamix(const AdEMAMixOptions& options) { return std::make_shared<AdEMAMix>(options); }
RulePtr ademamix8bit(const AdEMAMixOptions& options) { return std::make_shared<AdEMAMix8bit>(options); }

}  // namespace burnish::optim
