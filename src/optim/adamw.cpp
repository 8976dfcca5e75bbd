#include "optim/adamw.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "base/random_key.h"
#include "optim/rounding.h"

namespace burnish::optim {
namespace {

/// Elements of a batch of fp32 copies: small enough to stay in a CPU's cache, large enough to fill a GPU.
int64_t batch_elements(const at::Device& device) { return device.is_cpu() ? int64_t{1} << 18 : int64_t{1} << 24; }

at::Tensor flat_slice(const at::Tensor& tensor, int64_t begin, int64_t count) { return tensor.view({-1}).narrow(0, begin, count); }

}  // namespace

struct AdamW::Batch {
  std::vector<at::Tensor> values, remainders, gradients, exp_avg, exp_avg_sq, step_counts;
  std::vector<uint64_t> keys;
  int64_t num_elements = 0;

  void clear() { *this = Batch(); }
};

AdamW::AdamW(const OptimizerOptions& options, ParameterList parameters) : Optimizer(std::move(parameters)), options_(options) {
  for (const NamedParameter& parameter : parameters_) {
    const auto fp32 = parameter.value.options().dtype(at::kFloat).requires_grad(false);
    exp_avg_.push_back(at::zeros(parameter.value.sizes(), fp32));
    exp_avg_sq_.push_back(at::zeros(parameter.value.sizes(), fp32));
    bool with_remainder = options_.rounding == Rounding::remainder && parameter.value.scalar_type() == at::kBFloat16;
    remainder_.push_back(with_remainder ? at::zeros(parameter.value.sizes(), fp32.dtype(at::kShort)) : at::Tensor());
  }
  num_steps_.assign(parameters_.size(), 0);
}

void AdamW::update(Batch& batch, double lr) {
  if (batch.values.empty()) return;
  at::_fused_adamw_(batch.values, batch.gradients, batch.exp_avg, batch.exp_avg_sq, /*max_exp_avg_sqs=*/{}, batch.step_counts, lr,
                    options_.beta1, options_.beta2, options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  batch.clear();
}

void AdamW::update_through_copies(Batch& batch, double lr) {
  if (batch.values.empty()) return;
  const std::vector<at::Tensor> rounded = std::move(batch.values);
  const std::vector<at::Tensor> remainders = std::move(batch.remainders);
  const std::vector<uint64_t> keys = batch.keys;
  std::vector<at::Tensor> exact;
  for (size_t i = 0; i < rounded.size(); ++i) {
    exact.push_back(at::empty(rounded[i].sizes(), rounded[i].options().dtype(at::kFloat)));
    if (batch.gradients[i].scalar_type() == at::kFloat) continue;
    batch.gradients[i] = batch.gradients[i].to(at::kFloat);
  }
  if (options_.rounding != Rounding::remainder) at::_foreach_copy_(exact, rounded);
  else
    for (size_t i = 0; i < rounded.size(); ++i) {
      if (remainders[i].defined()) join_remainder(rounded[i], remainders[i], exact[i]);
      else exact[i].copy_(rounded[i]);
    }
  batch.values = exact;
  update(batch, lr);
  for (size_t i = 0; i < rounded.size(); ++i) {
    if (remainders[i].defined()) {
      split_remainder(exact[i], rounded[i], remainders[i]);
    } else if (options_.rounding == Rounding::stochastic && rounded[i].scalar_type() == at::kBFloat16) {
      round_stochastically(exact[i], rounded[i], keys[i]);
    } else {
      rounded[i].copy_(exact[i]);
    }
  }
}

void AdamW::step(double lr) {
  const at::NoGradGuard no_grad;
  std::map<std::pair<std::string, int64_t>, at::Tensor> step_counts;  // one scalar per device and count serves all its parameters
  std::map<std::pair<std::string, double>, Batch> direct, copied;     // by device and learning rate
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor value = parameters_[i].value.detach();
    at::Tensor gradient = parameters_[i].value.grad();
    if (!gradient.defined() || value.numel() == 0) continue;
    gradient = gradient.contiguous();
    const std::string device = value.device().str();
    const double rate = lr * parameters_[i].lr_factor;
    at::Tensor& count = step_counts[{device, ++num_steps_[i]}];
    if (!count.defined()) count = at::full({}, static_cast<double>(num_steps_[i]), exp_avg_[i].options());
    const auto add = [&](Batch& batch, const at::Tensor& part, int64_t begin, uint64_t key) {
      batch.values.push_back(part);
      batch.remainders.push_back(remainder_[i].defined() ? flat_slice(remainder_[i], begin, part.numel()).view(part.sizes())
                                                         : at::Tensor());
      batch.gradients.push_back(flat_slice(gradient, begin, part.numel()).view(part.sizes()));
      batch.exp_avg.push_back(flat_slice(exp_avg_[i], begin, part.numel()).view(part.sizes()));
      batch.exp_avg_sq.push_back(flat_slice(exp_avg_sq_[i], begin, part.numel()).view(part.sizes()));
      batch.step_counts.push_back(count);
      batch.keys.push_back(key);
      batch.num_elements += part.numel();
    };
    if (value.scalar_type() == at::kFloat && gradient.scalar_type() == at::kFloat && value.is_contiguous()) {
      add(direct[{device, rate}], value, 0, 0);
      continue;
    }
    CounterRandom keys(RandomKey{options_.seed, static_cast<uint64_t>(num_steps_[i]), static_cast<uint64_t>(i), Purpose::rounding}.value());
    Batch& batch = copied[{device, rate}];
    const int64_t limit = batch_elements(value.device());
    for (int64_t begin = 0; begin < value.numel(); begin += limit) {
      // A tensor that is not contiguous cannot be sliced in place: it is one part.
      const int64_t size = value.is_contiguous() ? std::min(limit, value.numel() - begin) : value.numel();
      add(batch, value.is_contiguous() ? flat_slice(value, begin, size) : value, begin, keys.next());
      if (batch.num_elements >= limit) update_through_copies(batch, rate);
      if (!value.is_contiguous()) break;
    }
  }
  for (auto& [key, batch] : direct) update(batch, key.second);
  for (auto& [key, batch] : copied) update_through_copies(batch, key.second);
}

StateList AdamW::state() const {
  StateList list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    list.emplace_back(name + ".exp_avg", exp_avg_[i]);
    list.emplace_back(name + ".exp_avg_sq", exp_avg_sq_[i]);
    list.emplace_back(name + ".step", at::full({}, num_steps_[i], at::TensorOptions().dtype(at::kLong)));
    if (remainder_[i].defined()) list.emplace_back(name + ".remainder", remainder_[i]);
  }
  return list;
}

void AdamW::load_state(const StateList& saved) {
  const StateList live = state();
  load_into("optimizer state", live, saved);
  size_t place = 0;
  for (const auto& [name, tensor] : live) {
    if (name == parameters_[place].name + ".step") num_steps_[place++] = tensor.item<int64_t>();
    if (place == parameters_.size()) break;
  }
}

at::Tensor AdamW::exact_value(size_t place) const {
  const at::Tensor value = parameters_[place].value.detach();
  if (!remainder_[place].defined()) return value;
  const at::Tensor exact = at::empty(value.sizes(), value.options().dtype(at::kFloat));
  join_remainder(value, remainder_[place], exact);
  return exact;
}

}  // namespace burnish::optim
