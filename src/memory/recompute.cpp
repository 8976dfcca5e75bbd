#include "memory/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "nn/body_stand_in.h"
#include "nn/delta_strength.h"

namespace burnish::memory {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The identity, which puts the gradient of its result into `caught` and passes none on. A leaf would lay its gradient out like itself, and
/// a sum over it could then associate differently.
struct Catch : torch::autograd::Function<Catch> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, at::Tensor* caught) {
    ctx->saved_data["caught"] = reinterpret_cast<int64_t>(caught);
    return x.detach();
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    *reinterpret_cast<at::Tensor*>(ctx->saved_data["caught"].toInt()) = grads[0];
    return {at::Tensor(), at::Tensor()};
  }
};

nn::Tensors run_inner(nn::BlockRunner* inner, nn::Block& block, const nn::Tensors& inputs) {
  return inner ? inner->run(block, inputs) : nn::body_of(block, inputs);
}

/// Says where a block's inputs wait outside of autograd.
struct Waiting : torch::CustomClassHolder {
  Waiting(std::shared_ptr<Checkpoints> all, const nn::Tensors& inputs)
      : checkpoints(std::move(all)), checkpoint(checkpoints->keep(inputs)) {}
  std::shared_ptr<Checkpoints> checkpoints;
  std::shared_ptr<Checkpoint> checkpoint;
};

variable_list saved_inputs(AutogradContext* ctx) {
  auto waiting = ctx->saved_data.find("waiting");
  if (waiting == ctx->saved_data.end()) return ctx->get_saved_variables();
  auto& where = static_cast<Waiting&>(*waiting->second.toCapsule());
  return where.checkpoints->take(*where.checkpoint);
}

struct Recompute : torch::autograd::Function<Recompute> {
  static variable_list forward(AutogradContext* ctx, nn::Block* block, nn::BlockRunner* inner,
                               const std::shared_ptr<Checkpoints>& checkpoints, const at::Tensor& /*anchor*/, at::TensorList inputs) {
    ctx->set_materialize_grads(false);  // what nothing reads gives its parameters no gradient, as without recomputation, and not zeros
    ctx->saved_data["block"] = reinterpret_cast<int64_t>(block);
    ctx->saved_data["inner"] = reinterpret_cast<int64_t>(inner);
    ctx->saved_data["strength"] = nn::DeltaStrength::current();
    if (checkpoints) ctx->saved_data["waiting"] = c10::IValue::make_capsule(c10::make_intrusive<Waiting>(checkpoints, inputs.vec()));
    else ctx->save_for_backward(inputs.vec());
    at::NoGradGuard no_grad;
    return run_inner(inner, *block, inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto* block = reinterpret_cast<nn::Block*>(ctx->saved_data["block"].toInt());
    auto* inner = reinterpret_cast<nn::BlockRunner*>(ctx->saved_data["inner"].toInt());
    const auto saved = saved_inputs(ctx);
    variable_list inputs, outputs, input_grads(saved.size());
    {
      at::AutoGradMode with_grad(true);
      nn::DeltaStrength at_that_of_forward(ctx->saved_data["strength"].toDouble());
      for (size_t i = 0; i < saved.size(); ++i) {
        const bool wanted = ctx->needs_input_grad(i + 1);  // the anchor comes first
        inputs.push_back(wanted ? Catch::apply(saved[i].detach().requires_grad_(true), &input_grads[i]) : saved[i].detach());
      }
      outputs = run_inner(inner, *block, inputs);
    }
    variable_list used, used_grads;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!grads[i].defined() || !outputs[i].requires_grad()) continue;
      used.push_back(outputs[i]);
      used_grads.push_back(grads[i]);
    }
    if (!used.empty()) torch::autograd::backward(used, used_grads);  // adds to the parameters' gradients directly
    variable_list result(4);                                         // none for the block, its runner, checkpoints and the anchor
    result.insert(result.end(), input_grads.begin(), input_grads.end());
    return result;
  }
};

class RecomputeRunner : public nn::BlockRunner {
 public:
  RecomputeRunner(std::shared_ptr<nn::BlockRunner> inner, std::shared_ptr<Checkpoints> checkpoints)
      : inner_(std::move(inner)), checkpoints_(std::move(checkpoints)) {}
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    if (!at::GradMode::is_enabled()) return run_inner(inner_.get(), block, inputs);
    // Parameters are not inputs of the function; one tensor that requires grad makes autograd call its backward all the same.
    auto anchor = at::Tensor(inputs[0].new_zeros({})).set_requires_grad(true);
    return Recompute::apply(&block, inner_.get(), checkpoints_, anchor,
                            at::TensorList(inputs));  // a plain vector would hide its tensors from autograd
  }

 private:
  std::shared_ptr<nn::BlockRunner> inner_;
  std::shared_ptr<Checkpoints> checkpoints_;
};

}  // namespace

std::shared_ptr<nn::BlockRunner> recompute(std::shared_ptr<nn::BlockRunner> inner, std::shared_ptr<Checkpoints> checkpoints) {
  return std::make_shared<RecomputeRunner>(std::move(inner), std::move(checkpoints));
}

}  // namespace burnish::memory
