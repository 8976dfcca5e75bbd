#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <cmath>

#include "optim/distance.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

class Prodigy final : public UpdateRule {
 public:
  explicit Prodigy(const ProdigyOptions& options)
      : options_(options), beta3_(options.beta3 > 0 ? options.beta3 : std::sqrt(options.beta2)) {
    d_ = fp64(options.d0);
    d_max_ = fp64(options.d0);
    numerator_ = fp64(0);
    num_steps_ = fp64(0);
  }

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list = distance_slots(parameter, options_.slice_p);
    list.push_back({"exp_avg", zeros_for(parameter)});
    list.push_back({"exp_avg_sq", zeros_for(parameter)});
    return list;
  }

  int64_t granule(int64_t /*numel*/) const override { return options_.slice_p; }
  bool looks_first() const override { return true; }
  int64_t num_sums() const override { return kNumDistanceSums; }

  void begin(double lr) override {
    const double k = number_of(num_steps_.add_(1));
    const auto& o = options_;
    const double correction = o.use_bias_correction ? std::sqrt(1 - std::pow(o.beta2, k)) / (1 - std::pow(o.beta1, k)) : 1;
    rate_ = d_ * correction;
    lr_ = lr;
  }

  void look(const Batch& batch) override {
    const auto exp_avg = batch.slot(2), exp_avg_sq = batch.slot(3);
    for (at::Tensor* number : {&d_, &d_max_, &numerator_, &rate_}) *number = number->to(batch.values[0].device());
    at::_foreach_mul_(exp_avg, options_.beta1);
    at::_foreach_add_(exp_avg, at::_foreach_mul(batch.gradients, fp32(d_ * (1 - options_.beta1))));
    auto squares = at::_foreach_mul(batch.gradients, batch.gradients);
    at::_foreach_mul_(squares, fp32(d_ * d_ * (1 - options_.beta2)));
    at::_foreach_mul_(exp_avg_sq, options_.beta2);
    at::_foreach_add_(exp_avg_sq, squares);
    // In units of d0, so that numbers do not become too small.
    const at::Tensor weight = d_ / options_.d0 * rate_ * lr_;
    const at::Tensor s_weight = options_.safeguard_warmup ? d_ / options_.d0 * d_ : weight;
    add_distances(batch, batch.values, {options_.slice_p, beta3_, weight, s_weight});
  }

  void decide(const at::Tensor& sums) override {
    for (at::Tensor* number : {&d_, &d_max_, &numerator_, &rate_}) *number = number->to(sums.device());
    numerator_ = numerator_ * beta3_ + sums[0];
    const at::Tensor estimate = options_.d_coef * numerator_ / sums[1].clamp_min(kSmallest);
    const at::Tensor is_first = d_.eq(options_.d0).to(at::kDouble);
    d_ = d_ + is_first * (at::maximum(d_, estimate) - d_);
    d_max_ = at::maximum(d_max_, estimate);
    d_ = options_.growth_rate > 0 ? at::minimum(d_max_, d_ * options_.growth_rate) : d_max_.clone();
  }

  void apply(const Batch& batch) override {
    const at::Tensor step_size = rate_ * batch.lr;
    auto size = at::_foreach_sqrt(batch.slot(3));
    at::_foreach_add_(size, fp32(d_ * options_.eps));
    auto updates = at::_foreach_div(batch.slot(2), size);
    at::_foreach_mul_(updates, fp32(step_size));
    if (batch.weight_decay != 0) at::_foreach_mul_(batch.values, fp32(1 - step_size * batch.weight_decay));
    at::_foreach_sub_(batch.values, updates);
  }

  at::Tensor learned_rate() const override { return rate_; }
  StateList state() const override {
    return {{"prodigy.d", d_}, {"prodigy.d_max", d_max_}, {"prodigy.d_numerator", numerator_}, {"prodigy.step", num_steps_}};
  }

 private:
  ProdigyOptions options_;
  double beta3_, lr_ = 0;
  at::Tensor d_, d_max_, numerator_, num_steps_, rate_;
};

}  // namespace

RulePtr prodigy(const ProdigyOptions& options) { return std::make_shared<Prodigy>(options); }

}  // namespace burnish::optim
