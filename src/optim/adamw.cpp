#include "optim/adamw.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "base/random_key.h"

namespace burnish::optim {
namespace {

/// Elements of a batch of fp32 copies: small enough to stay in a CPU's cache, large enough to fill a GPU.
int64_t batch_elements(const at::Device& device) { return device.is_cpu() ? int64_t{1} << 18 : int64_t{1} << 24; }

at::Tensor flat_slice(const at::Tensor& tensor, int64_t begin, int64_t count) { return tensor.view({-1}).narrow(0, begin, count); }

}  // namespace

struct AdamW::Batch {
  struct Copied {
    ValueStore* store;
    int64_t begin;
    uint64_t key;
  };
  std::vector<Copied> copied;
  std::vector<at::Tensor> values, gradients, exp_avg, exp_avg_sq, step_counts;
  int64_t num_elements = 0;
};

AdamW::AdamW(const OptimizerOptions& options, ParameterList parameters) : Optimizer(std::move(parameters)), options_(options) {
  for (const NamedParameter& parameter : parameters_) {
    const auto fp32 = parameter.value.options().dtype(at::kFloat).requires_grad(false);
    exp_avg_.push_back(at::zeros(parameter.value.sizes(), fp32));
    exp_avg_sq_.push_back(at::zeros(parameter.value.sizes(), fp32));
  }
  num_steps_.assign(parameters_.size(), 0);
}

void AdamW::update(Batch& batch, double lr) {
  if (batch.values.empty()) return;
  at::_fused_adamw_(batch.values, batch.gradients, batch.exp_avg, batch.exp_avg_sq, /*max_exp_avg_sqs=*/{}, batch.step_counts, lr,
                    options_.beta1, options_.beta2, options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
  // The fused operator leaves versions as they were; what is derived from parameters (DoRA's norms) goes by them.
  for (const at::Tensor& value : batch.values) value.unsafeGetTensorImpl()->bump_version();
}

void AdamW::update_through_copies(Batch& batch, double lr) {
  for (size_t i = 0; i < batch.copied.size(); ++i) {
    batch.values.push_back(at::empty(batch.exp_avg[i].sizes(), batch.exp_avg[i].options()));
    batch.copied[i].store->read(batch.copied[i].begin, batch.values[i]);
    batch.gradients[i] = batch.gradients[i].to(at::kFloat);
  }
  update(batch, lr);
  for (size_t i = 0; i < batch.copied.size(); ++i)
    batch.copied[i].store->write(batch.copied[i].begin, batch.values[i], batch.copied[i].key);
  batch = Batch();
}

void AdamW::step(double lr) {
  const at::NoGradGuard no_grad;
  std::map<std::pair<std::string, int64_t>, at::Tensor> step_counts;  // one scalar per device and count serves all its parameters
  std::map<std::pair<std::string, double>, Batch> direct, copied;     // by device and learning rate
  for (size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = parameters_[i].value.grad();
    if (!gradient.defined() || gradient.numel() == 0) continue;
    gradient = gradient.contiguous();
    const std::string device = gradient.device().str();
    const double rate = lr * parameters_[i].lr_factor;
    at::Tensor& count = step_counts[{device, ++num_steps_[i]}];
    if (!count.defined()) count = at::full({}, static_cast<double>(num_steps_[i]), exp_avg_[i].options());
    const auto add = [&](Batch& batch, int64_t begin, int64_t size) {
      batch.gradients.push_back(flat_slice(gradient, begin, size));
      batch.exp_avg.push_back(flat_slice(exp_avg_[i], begin, size));
      batch.exp_avg_sq.push_back(flat_slice(exp_avg_sq_[i], begin, size));
      batch.step_counts.push_back(count);
      batch.num_elements += size;
    };
    ValueStore& store = *parameters_[i].store;
    const at::Tensor value = store.tensor();
    if (value.defined() && value.scalar_type() == at::kFloat && gradient.scalar_type() == at::kFloat && value.is_contiguous()) {
      Batch& batch = direct[{device, rate}];
      batch.values.push_back(value.view({-1}));
      add(batch, 0, value.numel());
      continue;
    }
    CounterRandom keys(RandomKey{options_.seed, static_cast<uint64_t>(num_steps_[i]), static_cast<uint64_t>(i), Purpose::rounding}.value());
    Batch& batch = copied[{device, rate}];
    const int64_t limit = batch_elements(gradient.device()), granule = store.granule();
    const int64_t part = std::max<int64_t>(1, limit / granule) * granule;
    for (int64_t begin = 0; begin < gradient.numel(); begin += part) {
      batch.copied.push_back({&store, begin, keys.next()});
      add(batch, begin, std::min(part, gradient.numel() - begin));
      if (batch.num_elements >= limit) update_through_copies(batch, rate);
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

}  // namespace burnish::optim
