// AdamW (Loshchilov & Hutter 2019, arXiv 1711.05101) in torch.optim.AdamW's order of operations. States are fp32; a parameter of
// another dtype is updated in fp32 and rounded.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "optim/optimizer.h"

namespace burnish::optim {

namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const OptimizerOptions& options, ParameterList parameters) : Optimizer(std::move(parameters)), options_(options) {
    for (const auto& p : parameters_) {
      first_.push_back(at::zeros_like(p.value, p.value.options().dtype(at::kFloat)));
      second_.push_back(at::zeros_like(first_.back()));
      steps_.push_back(at::full({}, 0.0, first_.back().options()));
    }
  }

  void step(double lr) override {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      auto& value = parameters_[i].value;
      if (!value.grad().defined()) continue;
      bool full = value.scalar_type() == at::kFloat;
      auto master = full ? value : value.to(at::kFloat);
      steps_[i] += 1;
      at::_fused_adamw_({master}, {value.grad().to(at::kFloat)}, {first_[i]}, {second_[i]}, {}, {steps_[i]}, lr, options_.beta1, options_.beta2,
                        options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
      if (!full) value.copy_(master);
    }
  }

  StateList state() const override {
    StateList list;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      list.emplace_back(parameters_[i].name + ".exp_avg", first_[i]);
      list.emplace_back(parameters_[i].name + ".exp_avg_sq", second_[i]);
      list.emplace_back(parameters_[i].name + ".step", steps_[i]);
    }
    return list;
  }

  void load_state(const StateList& saved) override {
    for (auto& [name, slot] : state()) {
      const at::Tensor* found = nullptr;
      for (const auto& [key, value] : saved) {
        if (key == name) found = &value;
      }
      if (!found || found->sizes() != slot.sizes()) {
        data_error("optim", "the saved optimizer state {} '{}': it belongs to a run with other trained parameters", found ? "has another shape for" : "lacks", name);
      }
      slot.copy_(*found);
    }
  }

 private:
  OptimizerOptions options_;
  std::vector<at::Tensor> first_, second_, steps_;
};

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options, ParameterList parameters) {
  if (options.name != "adamw") config_error("optim", "optimizer '{}' is not known; choose adamw", options.name);
  return std::make_unique<AdamW>(options, std::move(parameters));
}

}  // namespace burnish::optim
