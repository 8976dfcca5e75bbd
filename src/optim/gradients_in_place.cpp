#include "optim/gradients_in_place.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_zero.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace burnish::optim {

class GradientsInPlace::Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientsInPlace& gradients, size_t index) : gradients_(gradients), index_(index) {}
  void operator()(const torch::autograd::Variable& parameter) override {
    ++gradients_.num_came[index_];
    if (!gradients_.places_[index_].defined()) gradients_.places_[index_] = parameter.grad();
  }

 private:
  GradientsInPlace& gradients_;
  size_t index_;
};

GradientsInPlace::GradientsInPlace(const ParameterList& parameters) : num_came(parameters.size()), places_(parameters.size()) {
  for (const NamedParameter& parameter : parameters) {
    torch::autograd::impl::set_post_acc_grad_hooks(parameter.value, std::make_unique<Hook>(*this, parameters_.size()));
    parameters_.push_back(parameter.value);
  }
}

GradientsInPlace::~GradientsInPlace() {
  for (const at::Tensor& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
}

void GradientsInPlace::begin() {
  const at::NoGradGuard no_grad;
  num_came.assign(parameters_.size(), 0);
  std::vector<at::Tensor> there;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (places_[i].defined()) there.push_back(places_[i]);
    parameters_[i].mutable_grad() = places_[i];
  }
  if (!there.empty()) at::_foreach_zero_(there);
}

void GradientsInPlace::finish() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (num_came[i] == 0) parameters_[i].mutable_grad() = at::Tensor();
  }
}

}  // namespace burnish::optim
