#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>

#include "optim/factored.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

class Adafactor final : public UpdateRule {
 public:
  explicit Adafactor(const AdafactorOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list = factored_slots("exp_avg_sq", parameter);
    if (options_.beta1 > 0) list.push_back({"exp_avg", zeros_for(parameter), 0});
    return list;
  }

  int64_t granule(int64_t numel) const override { return numel; }

  void apply(const Batch& batch) override {
    for (size_t i = 0; i < batch.values.size(); ++i) {
      const auto& slots = batch.slots[i];
      const double step = static_cast<double>(batch.steps[i]);
      update_one(batch.values[i].view(batch.shapes[i]), batch.gradients[i].view(batch.shapes[i]), slots, step, batch);
    }
  }

 private:
  void update_one(const at::Tensor& value, const at::Tensor& gradient, const std::vector<at::Tensor>& slots, double step,
                  const Batch& batch) {
    double rate = batch.lr;
    if (options_.relative_step) {
      rate = batch.lr_factor * std::min(options_.warmup_init ? 1e-6 * step : 1e-2, 1 / std::sqrt(step));
    }
    at::Tensor scaled_rate = at::full({}, rate, value.options().dtype(at::kDouble));
    if (options_.scale_parameter) scaled_rate.mul_(root_mean_square(value).clamp_min_(options_.eps2));
    size_t place = 0;
    at::Tensor update = update_factored(slots, place, gradient.square().add_(options_.eps1), 1 - std::pow(step, options_.decay_rate));
    update.mul_(gradient);
    clip_update(update, options_.clip_threshold);
    update.mul_(scaled_rate);
    if (options_.beta1 > 0) update = slots[place].mul_(options_.beta1).add_(update, 1 - options_.beta1);
    if (batch.weight_decay != 0) value.sub_(value * (scaled_rate * batch.weight_decay));
    value.sub_(update);
  }

  AdafactorOptions options_;
};

}  // namespace

RulePtr adafactor(const AdafactorOptions& options) { return std::make_shared<Adafactor>(options); }

}  // namespace burnish::optim
