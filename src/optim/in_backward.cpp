#include "optim/in_backward.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <stdexcept>

#include "base/input_error.h"

namespace burnish::optim {

class InBackward::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(InBackward& step, size_t index) : step_(step), index_(index) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { step_.update(index_); }

 private:
  InBackward& step_;
  size_t index_;
};

InBackward::InBackward(Optimizer& optimizer, double lr, double max_norm)
    : optimizer_(optimizer), max_norm_(max_norm), parts_(optimizer.parameters().size()) {
  if (optimizer.needs_all_gradients()) throw std::logic_error("an optimizer that needs all gradients cannot step inside backward");
  const auto& parameters = optimizer.parameters();
  for (const NamedParameter& parameter : parameters) {
    if (parameter.value.grad().defined()) throw std::logic_error("a step inside backward of parameters that have gradients");
  }
  optimizer.begin(lr);
  for (size_t i = 0; i < parameters.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(parameters[i].value, std::make_unique<Hook>(*this, i));
}

InBackward::~InBackward() {
  for (const NamedParameter& parameter : optimizer_.parameters()) torch::autograd::impl::set_post_acc_grad_hooks(parameter.value, nullptr);
}

void InBackward::update(size_t index) {
  const NamedParameter& parameter = optimizer_.parameters()[index];
  if (optimizer_.was_updated(index)) {
    config_error("optim", "{} gets its gradient from several blocks, and was updated with the first of them; train without {}",
                 parameter.name, "fused_backward_pass");
  }
  parts_[index] = norm_part(parameter.value.grad());
  clip_gradients({parameter}, norm_of_parts({parts_[index]}), max_norm_);
  optimizer_.update(index);
  parameter.value.mutable_grad() = at::Tensor();
}

at::Tensor InBackward::finish() {
  optimizer_.finish();
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : parts_) {
    if (part.defined()) parts.push_back(part);
  }
  return norm_of_parts(parts);
}

}  // namespace burnish::optim
