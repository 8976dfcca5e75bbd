#include "memory/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

namespace burnish::memory {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* ctx, nn::Block* block, const at::Tensor& /*anchor*/, at::TensorList inputs) {
    ctx->saved_data["block"] = reinterpret_cast<int64_t>(block);
    ctx->save_for_backward(inputs.vec());
    at::NoGradGuard no_grad;
    return block->body(inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto* block = reinterpret_cast<nn::Block*>(ctx->saved_data["block"].toInt());
    variable_list inputs;
    for (size_t i = 0; auto& saved : ctx->get_saved_variables()) {
      inputs.push_back(saved.detach());
      inputs.back().set_requires_grad(ctx->needs_input_grad(i++ + 1));  // the anchor comes first
    }
    variable_list outputs;
    {
      at::AutoGradMode with_grad(true);
      outputs = block->body(inputs);
    }
    variable_list used, used_grads;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      used.push_back(outputs[i]);
      used_grads.push_back(grads[i]);
    }
    if (!used.empty()) torch::autograd::backward(used, used_grads);  // adds to the parameters' gradients directly
    variable_list result(2);
    for (auto& input : inputs) result.push_back(input.requires_grad() ? input.grad() : at::Tensor());
    return result;
  }
};

class RecomputeRunner : public nn::BlockRunner {
 public:
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    if (!at::GradMode::is_enabled()) return block.body(inputs);
    // Parameters are not inputs of the function; one tensor that requires grad makes autograd call its backward all the same.
    auto anchor = at::Tensor(inputs[0].new_zeros({})).set_requires_grad(true);
    return Recompute::apply(&block, anchor, at::TensorList(inputs));  // a plain vector would hide its tensors from autograd
  }
};

}  // namespace

std::shared_ptr<nn::BlockRunner> recompute() { return std::make_shared<RecomputeRunner>(); }

}  // namespace burnish::memory
