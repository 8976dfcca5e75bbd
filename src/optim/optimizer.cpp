#include "optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>

#include "base/random_key.h"
#include "kernels/place.h"

namespace burnish::optim {
namespace {

/// Elements of a batch of fp32 copies: small enough to stay in a CPU's cache, large enough to fill a GPU.
int64_t batch_elements(const at::Device& device) { return kernels::runs_on_cpu(device) ? int64_t{1} << 18 : int64_t{1} << 24; }

/// Slices a contiguous tensor by one operator: each parameter has four slices in each step.
at::Tensor flat_slice(const at::Tensor& tensor, int64_t begin, int64_t count) {
  return tensor.as_strided({count}, {1}, tensor.storage_offset() + begin);
}

/// A slot's numbers for a stretch of its parameter.
at::Tensor slot_slice(const Slot& slot, int64_t begin, int64_t count) {
  if (slot.elements == 0) return slot.tensor;
  return flat_slice(slot.tensor, begin / slot.elements, (count + slot.elements - 1) / slot.elements);
}

/// Puts memory of the device in the place of slots in host memory; both.
memory::HostStore::Copies on_device(Batch& batch) {
  memory::HostStore::Copies copies;
  const at::Device device = batch.gradients.front().device();
  for (std::vector<at::Tensor>& of_stretch : batch.slots) {
    for (at::Tensor& slot : of_stretch) {
      copies.emplace_back(at::empty(slot.sizes(), slot.options().device(device)), slot);
      slot = copies.back().first;
    }
  }
  return copies;
}

/// The value itself, when a rule can update it in place.
at::Tensor plain_value(const NamedParameter& parameter, const at::Tensor& gradient) {
  at::Tensor value = parameter.store->tensor();
  bool plain = value.defined() && value.scalar_type() == at::kFloat && gradient.scalar_type() == at::kFloat && value.is_contiguous();
  return plain ? value : at::Tensor();
}

}  // namespace

at::Tensor zeros_for(const NamedParameter& parameter, at::OptionalIntArrayRef shape) {
  return at::zeros(shape.value_or(parameter.value.sizes()), parameter.value.options().dtype(at::kFloat).requires_grad(false));
}

std::vector<at::Tensor> Batch::slot(size_t index) const {
  std::vector<at::Tensor> list;
  for (const auto& of_stretch : slots) list.push_back(of_stretch.at(index));
  return list;
}

/// A batch that is being filled, and where its copies go back to.
struct Optimizer::Pending {
  struct Copied {
    ValueStore* store;
    int64_t begin;
    uint64_t key;
  };
  Batch batch;
  std::vector<Copied> copied;
  int64_t num_elements = 0;
};

Optimizer::Optimizer(ParameterList parameters, std::vector<RulePtr> rules, uint64_t seed, std::shared_ptr<memory::HostStore> host)
    : parameters_(std::move(parameters)), seed_(seed), host_(std::move(host)) {
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    auto found = std::find(rules_.begin(), rules_.end(), rules.at(i));
    if (found == rules_.end()) found = rules_.insert(found, rules[i]);
    members_.push_back({static_cast<size_t>(found - rules_.begin()), {}});
    if (parameters_[i].owned) members_.back().slots = rules[i]->slots(parameters_[i]);
    if (!host_) continue;
    for (Slot& slot : members_.back().slots) slot.tensor = host_->put(slot.tensor);
  }
}

void Optimizer::run(const Key& key, Use use, Pending& pending) {
  if (pending.num_elements == 0) return;
  Batch& batch = pending.batch;
  for (const auto& [store, begin, random] : pending.copied) {
    at::Tensor& gradient = batch.gradients[batch.values.size()];
    batch.values.push_back(at::empty(gradient.sizes(), gradient.options().dtype(at::kFloat)));
    store->read(begin, batch.values.back());
    gradient = gradient.to(at::kFloat);
  }
  const memory::HostStore::Copies copies = host_ ? on_device(batch) : memory::HostStore::Copies();
  if (host_) host_->wait(host_->fetch(copies));
  auto& rule = *rules_[std::get<0>(key)];
  if (use == Use::look) {
    rule.look(batch);
  } else {
    rule.apply(batch);
    for (size_t i = 0; i < pending.copied.size(); ++i)
      pending.copied[i].store->write(pending.copied[i].begin, batch.values[i], pending.copied[i].key);
  }
  if (host_) host_->update(copies);
  pending = Pending();
}

void Optimizer::add(size_t index, Use use, Batches& batches) {
  const NamedParameter& parameter = parameters_[index];
  const Member& member = members_[index];
  const UpdateRule& rule = *rules_[member.rule];
  const at::Tensor gradient = parameter.value.grad().contiguous();
  const at::Tensor plain = plain_value(parameter, gradient);
  const int64_t numel = gradient.numel(), limit = batch_elements(gradient.device());
  const int64_t granule = std::lcm(plain.defined() ? 1 : parameter.store->granule(), rule.granule(numel));
  const bool whole = plain.defined() && rule.is_fused() && !host_;
  const int64_t part = whole ? numel : std::max<int64_t>(1, limit / granule) * granule;
  const double weight_decay = parameter.weight_decay.value_or(0);
  const Key key{member.rule, !plain.defined(), gradient.device().str(), parameter.lr_factor, weight_decay};
  CounterRandom keys(RandomKey{seed_, static_cast<uint64_t>(member.num_steps), static_cast<uint64_t>(index), Purpose::rounding}.value());
  // Parts behind the second and before the last take and free what the second did, so that a dry run passes over them.
  const bool looks_alike = gradient.is_meta() && part >= limit;
  for (int64_t begin = 0; begin < numel; begin += part) {
    const int64_t count = std::min(part, numel - begin);
    if (looks_alike && begin >= 2 * part && begin + part < numel) continue;
    Pending& pending = batches[key];
    Batch& batch = pending.batch;
    batch.lr = lr_ * parameter.lr_factor;
    batch.lr_factor = parameter.lr_factor;
    batch.weight_decay = weight_decay;
    if (plain.defined()) batch.values.push_back(flat_slice(plain, begin, count));
    else pending.copied.push_back({parameter.store.get(), begin, keys.next()});
    batch.gradients.push_back(flat_slice(gradient, begin, count));
    std::vector<at::Tensor>& slots = batch.slots.emplace_back();
    for (const Slot& slot : member.slots) slots.push_back(slot_slice(slot, begin, count));
    batch.shapes.push_back(parameter.value.sizes());
    batch.steps.push_back(member.num_steps);
    if (sums_[member.rule].defined()) batch.sums.push_back(sums_[member.rule].select(0, static_cast<int64_t>(index)));
    pending.num_elements += count;
    if (pending.num_elements >= limit && !whole) run(key, use, pending);
  }
}

void Optimizer::pass(Use use, const std::vector<size_t>& indices) {
  Batches batches;
  for (const size_t i : indices) add(i, use, batches);
  for (auto& [key, pending] : batches) run(key, use, pending);
}

void Optimizer::update(const std::vector<size_t>& indices) {
  const at::NoGradGuard no_grad;
  std::vector<size_t> looked_at;
  for (const size_t i : indices) {
    ++members_[i].num_steps;
    members_[i].updated = true;
    if (rules_[members_[i].rule]->looks_first()) looked_at.push_back(i);
  }
  pass(Use::look, looked_at);
  decide(/*looks_first=*/true);
  pass(Use::apply, indices);
  for (const size_t i : indices) mark_changed(parameters_[i]);
}

/// One number a parameter is added up in the order of the list, so that it does not matter who owns which.
void Optimizer::decide(bool looks_first) {
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (!sums_[i].defined() || rules_[i]->looks_first() != looks_first) continue;
    if (sum_ && !sums_[i].is_meta()) {
      const at::Tensor on_host = sums_[i].cpu();
      sum_(on_host);
      sums_[i].copy_(on_host);
    }
    rules_[i]->decide(sums_[i].sum(0));
  }
}

bool Optimizer::is_due(size_t index) const {
  const at::Tensor& gradient = parameters_[index].value.grad();
  return parameters_[index].owned && !members_[index].updated && gradient.defined() && gradient.numel() > 0;
}

void Optimizer::begin(double lr) {
  const at::NoGradGuard no_grad;
  lr_ = lr;
  for (Member& member : members_) member.updated = false;
  sums_.assign(rules_.size(), at::Tensor());
  for (size_t i = 0; i < rules_.size(); ++i) {
    rules_[i]->begin(lr);
    if (rules_[i]->num_sums() == 0) continue;
    const auto fp64 = parameters_.front().value.options().dtype(at::kDouble).requires_grad(false);
    sums_[i] = at::zeros({std::ssize(parameters_), rules_[i]->num_sums()}, fp64);
  }
}

void Optimizer::update(size_t index) {
  if (needs_all_gradients()) throw std::logic_error("an optimizer that needs all gradients was asked to update one parameter");
  if (is_due(index)) update(std::vector<size_t>{index});
}

void Optimizer::finish() {
  std::vector<size_t> due;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (is_due(i)) due.push_back(i);
  }
  update(due);
  const at::NoGradGuard no_grad;
  decide(/*looks_first=*/false);
}

void Optimizer::step(double lr) {
  begin(lr);
  finish();
}

bool Optimizer::needs_all_gradients() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const RulePtr& rule) { return rule->looks_first(); });
}

StateList Optimizer::state() const {
  if (host_) host_->synchronize();
  StateList list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (!parameters_[i].owned) continue;
    const std::string& name = parameters_[i].name;
    for (const Slot& slot : members_[i].slots) list.emplace_back(name + "." + slot.name, slot.tensor);
    list.emplace_back(name + ".step", at::full({}, members_[i].num_steps, at::TensorOptions().dtype(at::kLong)));
  }
  for (auto& entry : common_state()) list.push_back(std::move(entry));
  return list;
}

StateList Optimizer::common_state() const {
  StateList list;
  for (const RulePtr& rule : rules_) {
    for (auto& entry : rule->state()) list.push_back(std::move(entry));
  }
  return list;
}

void Optimizer::load_state(const StateList& saved) {
  const StateList live = state();
  load_into("optimizer state", live, saved, owns_all(parameters_));
  size_t place = 0;
  for (const auto& [name, tensor] : live) {
    while (place < parameters_.size() && !parameters_[place].owned) ++place;
    if (place == parameters_.size()) break;
    if (name == parameters_[place].name + ".step") members_[place++].num_steps = tensor.item<int64_t>();
  }
}

bool Optimizer::averages() const {
  return std::ranges::any_of(rules_, [](const RulePtr& rule) { return rule->averages(); });
}

at::Tensor Optimizer::average(size_t index) const {
  const at::NoGradGuard no_grad;
  const UpdateRule& rule = *rules_[members_[index].rule];
  if (!parameters_[index].owned || !rule.averages()) return {};
  const at::Device device = parameters_[index].value.device();
  std::vector<at::Tensor> slots;
  if (host_) host_->synchronize();
  for (const Slot& slot : members_[index].slots) slots.push_back((slot.elements == 0 ? slot.tensor : slot.tensor.view({-1})).to(device));
  const at::Tensor exact = exact_value(parameters_[index]).detach().to(at::kFloat).contiguous();
  return rule.average(exact.view({-1}), slots).view(exact.sizes());
}

at::Tensor Optimizer::learned_rate() const {
  for (const RulePtr& rule : rules_) {
    if (const at::Tensor rate = rule->learned_rate(); rate.defined()) return rate;
  }
  return {};
}

void Optimizer::zero_grad() {
  for (NamedParameter& parameter : parameters_) parameter.value.mutable_grad() = at::Tensor();
}

}  // namespace burnish::optim
