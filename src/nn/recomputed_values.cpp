#include "nn/recomputed_values.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace burnish::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The values of one call between forward and backward.
class Values : public torch::CustomClassHolder {
 public:
  explicit Values(Compute compute) : compute_(std::move(compute)) {}

  /// Computes them for forward.
  Tensors first(const Tensors& inputs) {
    const at::NoGradGuard no_grad;
    auto values = compute_(inputs);
    for (const auto& value : values) storages_.push_back(value.storage());
    return values;
  }

  /// Gives up their memory; `inputs` are what they are computed from again. Those that nobody saved are gone already.
  void drop(const Tensors& inputs) {
    for (const auto& input : inputs) inputs_.push_back(input.defined() ? input.detach().set_requires_grad(input.requires_grad()) : input);
    for (auto& storage : storages_) {
      if (storage.use_count() == 1) storage = c10::Storage();
      else storage.set_data_ptr_noswap(c10::DataPtr(nullptr, storage.device()));
    }
  }

  /// Computes them again, into the tensors that were saved, and keeps the graph from the inputs to them.
  void recompute() {
    if (!again_.empty()) return;
    const at::AutoGradMode with_grad(true);
    again_ = compute_(inputs_);
    for (size_t i = 0; i < again_.size(); ++i) {
      if (!storages_[i]) continue;
      auto* held = new c10::Storage(again_[i].storage());
      storages_[i].set_data_ptr_noswap(
          {held->mutable_data(), held, [](void* context) { delete static_cast<c10::Storage*>(context); }, storages_[i].device()});
    }
  }

  /// The gradients of the inputs; after it nothing is held.
  variable_list backward(const variable_list& grads) {
    recompute();
    variable_list outputs, output_grads, wanted;
    for (size_t i = 0; i < again_.size(); ++i) {
      if (!grads[i].defined() || !again_[i].requires_grad()) continue;
      outputs.push_back(again_[i]);
      output_grads.push_back(grads[i]);
    }
    for (const auto& input : inputs_) {
      if (input.defined() && input.requires_grad()) wanted.push_back(input);
    }
    variable_list found, all(inputs_.size());
    if (!outputs.empty() && !wanted.empty())
      found = torch::autograd::grad(outputs, wanted, output_grads, /*retain_graph=*/false, /*create_graph=*/false, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < inputs_.size() && !found.empty(); ++i) {
      if (inputs_[i].defined() && inputs_[i].requires_grad()) all[i] = found[next++];
    }
    again_.clear();
    inputs_.clear();
    storages_.clear();
    return all;
  }

 private:
  Compute compute_;
  Tensors inputs_, again_;
  std::vector<c10::Storage> storages_;  ///< of the values; empty ones are not needed
};

using ValuesPtr = c10::intrusive_ptr<Values>;

Values& values_of(AutogradContext* ctx) { return static_cast<Values&>(*ctx->saved_data["values"].toCapsule()); }

struct Produce : torch::autograd::Function<Produce> {
  static variable_list forward(AutogradContext* ctx, const ValuesPtr& values, at::TensorList inputs) {
    ctx->saved_data["values"] = c10::IValue::make_capsule(values);
    ctx->set_materialize_grads(false);
    return values->first(inputs.vec());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto result = values_of(ctx).backward(grads);
    result.insert(result.begin(), at::Tensor());
    return result;
  }
};

/// The identity, before whose backward the values have no memory and after whose they have it again.
struct Remake : torch::autograd::Function<Remake> {
  static variable_list forward(AutogradContext* ctx, const ValuesPtr& values, at::TensorList results) {
    ctx->saved_data["values"] = c10::IValue::make_capsule(values);
    ctx->set_materialize_grads(false);
    variable_list same;
    for (const auto& result : results) same.push_back(result.detach());
    return same;
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    values_of(ctx).recompute();
    grads.insert(grads.begin(), at::Tensor());
    return grads;
  }
};

Keeper*& keeper() {
  thread_local Keeper* current = nullptr;
  return current;
}

}  // namespace

Keeper::Keeper() : before_(std::exchange(keeper(), this)) {}
Keeper::~Keeper() { keeper() = before_; }

Tensors recomputed(const Tensors& inputs, const Compute& compute, const std::function<Tensors(const Tensors& values)>& use) {
  if (!at::GradMode::is_enabled()) return use(compute(inputs));
  if (keeper() != nullptr) {
    if (auto values = keeper()->kept(with_own_nodes(inputs), compute)) return use(*values);
  }
  auto values = c10::make_intrusive<Values>(compute);
  auto results = use(Produce::apply(values, at::TensorList(inputs)));
  values->drop(inputs);
  return Remake::apply(values, at::TensorList(results));
}

at::Tensor recomputed(const Tensors& inputs, const std::function<at::Tensor(const Tensors& inputs)>& compute,
                      const std::function<at::Tensor(const at::Tensor& value)>& use) {
  return recomputed(
      inputs, [compute](const Tensors& in) { return Tensors{compute(in)}; },
      [&use](const Tensors& values) { return Tensors{use(values[0])}; })[0];
}

}  // namespace burnish::nn
