#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <cmath>

#include "optim/distance.h"
#include "optim/rules.h"

namespace burnish::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

/// Returns where the fast iterate z starts: at the parameter.
Slot slot_of_z(const NamedParameter& parameter) {
  return {"z", exact_value(parameter).detach().to(at::kFloat, /*non_blocking=*/false, /*copy=*/true, at::MemoryFormat::Contiguous)};
}

/// One step along `updates`: z by step_size, and y between z and the average x, which takes in the new z with the share c. y = (1-beta) z +
/// beta x is what is kept, so x = y + (1 - 1/beta) (z - y).
void move(const Tensors& y, const Tensors& z, const Tensors& updates, const at::Tensor& step_size, const at::Tensor& c, double beta1) {
  auto to_z = at::_foreach_sub(z, y);
  at::_foreach_mul_(to_z, fp32(c));
  at::_foreach_add_(y, to_z);
  at::_foreach_add_(y, at::_foreach_mul(updates, fp32(step_size * (beta1 * (1 - c) - 1))));
  at::_foreach_sub_(z, at::_foreach_mul(updates, fp32(step_size)));
}

at::Tensor average_of(const at::Tensor& y, const at::Tensor& z, double beta1) { return y + (z - y) * (1 - 1 / beta1); }

class ScheduleFree final : public UpdateRule {
 public:
  explicit ScheduleFree(const ScheduleFreeOptions& options) : options_(options) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    return {slot_of_z(parameter), {"exp_avg_sq", zeros_for(parameter)}};
  }

  void begin(double lr) override {
    const double k = number_of(num_steps_.add_(1));
    const double lr_max = number_of(lr_max_.clamp_min_(lr));
    const double weight = std::pow(k, options_.r) * std::pow(lr_max, options_.weight_lr_power);
    const double sum = number_of(weight_sum_.add_(weight));
    c_ = sum > 0 ? weight / sum : 0;
    bias_correction_ = 1 - std::pow(options_.beta2, k);
  }

  void apply(const Batch& batch) override {
    const auto z = batch.slot(0), exp_avg_sq = batch.slot(1);
    const auto device = batch.values[0].device();
    at::_foreach_mul_(exp_avg_sq, options_.beta2);
    auto squares = at::_foreach_mul(batch.gradients, batch.gradients);
    at::_foreach_add_(exp_avg_sq, squares, 1 - options_.beta2);
    auto size = at::_foreach_div(exp_avg_sq, bias_correction_);
    at::_foreach_sqrt_(size);
    at::_foreach_add_(size, options_.eps);
    auto updates = at::_foreach_div(batch.gradients, size);
    if (batch.weight_decay != 0) at::_foreach_add_(updates, batch.values, batch.weight_decay);
    move(batch.values, z, updates, fp64(batch.lr, device), fp64(c_, device), options_.beta1);
  }

  bool averages() const override { return true; }
  at::Tensor average(const at::Tensor& value, const Tensors& slots) const override { return average_of(value, slots[0], options_.beta1); }

  StateList state() const override {
    return {{"schedule_free.step", num_steps_}, {"schedule_free.lr_max", lr_max_}, {"schedule_free.weight_sum", weight_sum_}};
  }

 private:
  ScheduleFreeOptions options_;
  at::Tensor num_steps_ = fp64(0), lr_max_ = fp64(-1), weight_sum_ = fp64(0);  ///< on the CPU
  double c_ = 0, bias_correction_ = 1;
};

class ScheduleFreeProdigy final : public UpdateRule {
 public:
  explicit ScheduleFreeProdigy(const ProdigyOptions& options)
      : options_(options), beta3_(options.beta3 > 0 ? options.beta3 : std::sqrt(options.beta2)), d_(fp64(options.d0)) {}

  std::vector<Slot> slots(const NamedParameter& parameter) const override {
    std::vector<Slot> list = distance_slots(parameter, options_.slice_p);
    list.push_back(slot_of_z(parameter));
    list.push_back({"exp_avg_sq", zeros_for(parameter)});
    return list;
  }

  int64_t granule(int64_t /*numel*/) const override { return options_.slice_p; }

  int64_t num_sums() const override { return kNumDistanceSums; }
  void decide(const at::Tensor& sums) override { step_numerator_ = sums[0].clone(), step_denominator_ = sums[1].clone(); }

  /// Takes in what the last step summed up, so that parameters can be updated one by one.
  void begin(double lr) override {
    const at::Tensor &numerator = step_numerator_, &denominator = step_denominator_;
    // A way that leads back does not count before d has begun to grow.
    const at::Tensor counts = d_.gt(options_.d0).bitwise_or(numerator.gt(0)).to(at::kDouble);
    numerator_ = numerator_ * beta3_ + counts * numerator;
    const at::Tensor estimate = numerator_ / denominator.clamp_min(kSmallest) * denominator.gt(0).to(at::kDouble);
    d_ = at::maximum(d_, at::minimum(estimate, d_ * std::pow(2, 0.25)) * options_.d_coef);
    const at::Tensor weight = (d_ * lr).square_();
    weight_sum_ = weight_sum_ + weight;
    c_ = weight / weight_sum_.clamp_min(kSmallest);
  }

  void apply(const Batch& batch) override {
    const auto z = batch.slot(2), exp_avg_sq = batch.slot(3);
    for (at::Tensor* number : {&d_, &numerator_, &weight_sum_, &c_}) *number = number->to(batch.values[0].device());
    auto squares = at::_foreach_mul(batch.gradients, batch.gradients);
    at::_foreach_mul_(squares, fp32(d_ * d_ * (1 - options_.beta2)));
    at::_foreach_mul_(exp_avg_sq, options_.beta2);
    at::_foreach_add_(exp_avg_sq, squares);
    auto size = at::_foreach_sqrt(exp_avg_sq);
    at::_foreach_add_(size, fp32(d_ * options_.eps));
    auto updates = at::_foreach_mul(batch.gradients, fp32(d_));
    at::_foreach_div_(updates, size);
    const at::Tensor weight = d_ * d_ / std::sqrt(options_.d0);
    add_distances(batch, z, {options_.slice_p, beta3_, weight, weight});
    if (batch.weight_decay != 0) at::_foreach_add_(updates, batch.values, batch.weight_decay);
    move(batch.values, z, updates, d_ * batch.lr, c_, options_.beta1);
  }

  bool averages() const override { return true; }
  at::Tensor average(const at::Tensor& value, const Tensors& slots) const override { return average_of(value, slots[2], options_.beta1); }
  at::Tensor learned_rate() const override { return d_; }

  StateList state() const override {
    return {{"prodigy_schedulefree.d", d_},
            {"prodigy_schedulefree.d_numerator", numerator_},
            {"prodigy_schedulefree.step_numerator", step_numerator_},
            {"prodigy_schedulefree.step_denominator", step_denominator_},
            {"prodigy_schedulefree.weight_sum", weight_sum_}};
  }

 private:
  ProdigyOptions options_;
  double beta3_;
  at::Tensor d_, numerator_ = fp64(0), weight_sum_ = fp64(0), c_;
  at::Tensor step_numerator_ = fp64(0), step_denominator_ = fp64(0);  ///< what the last step summed up
};

}  // namespace

RulePtr adamw_schedulefree(const ScheduleFreeOptions& options) { return std::make_shared<ScheduleFree>(options); }

RulePtr prodigy_schedulefree(const ProdigyOptions& options) { return std::make_shared<ScheduleFreeProdigy>(options); }

}  // namespace burnish::optim
