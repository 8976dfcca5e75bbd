#include "nn/by_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <unordered_set>

#include "nn/delta_strength.h"

namespace burnish::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Says how the inputs and the result are cut.
struct Cut : torch::CustomClassHolder {
  std::function<at::Tensor(const Tensors&)> compute;
  std::vector<int64_t> dims;  ///< of the inputs
  int64_t dim = 1, at_once = 1, num_tokens = 0;
  double strength = DeltaStrength::current();  ///< of forward
};
using CutPtr = c10::intrusive_ptr<Cut>;

/// Calls each(first, count) for the pieces in their order.
void for_pieces(const Cut& cut, const std::function<void(int64_t first, int64_t count)>& each) {
  for (int64_t first = 0; first < cut.num_tokens; first += cut.at_once) each(first, std::min(cut.at_once, cut.num_tokens - first));
}

at::Tensor piece_of(const at::Tensor& whole, int64_t dim, int64_t first, int64_t count) {
  return dim == kShared ? whole : whole.narrow(dim, first, count);
}

/// Adds what autograd finds for a tensor of which pieces contribute.
void add(at::Tensor& sum, const at::Tensor& found) {
  if (found.defined()) sum = sum.defined() ? sum + found : found;
}

/// The parameters below a result that are not among `inputs`, in the order in which they are met.
variable_list parameters_below(const at::Tensor& result, const variable_list& inputs) {
  std::unordered_set<torch::autograd::Node*> seen;
  std::vector<torch::autograd::Node*> waiting{result.grad_fn().get()};
  variable_list found;
  while (!waiting.empty()) {
    auto* node = waiting.back();
    waiting.pop_back();
    if (node == nullptr || !seen.insert(node).second) continue;
    if (auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) {
      auto is_it = [&](const at::Tensor& input) { return input.is_same(leaf->variable); };
      if (std::none_of(inputs.begin(), inputs.end(), is_it)) found.push_back(leaf->variable);
    }
    for (const auto& edge : node->next_edges()) waiting.push_back(edge.function.get());
  }
  return found;
}

struct ByTokens : torch::autograd::Function<ByTokens> {
  static at::Tensor forward(AutogradContext* ctx, const CutPtr& cut, const at::Tensor& /*anchor*/, at::TensorList inputs) {
    ctx->saved_data["cut"] = c10::IValue::make_capsule(cut);
    ctx->save_for_backward(inputs.vec());
    const at::NoGradGuard no_grad;
    return whole(*cut, inputs.vec());
  }

  /// The result, each piece of which is written into its place.
  static at::Tensor whole(const Cut& cut, const Tensors& inputs) {
    at::Tensor all;
    for_pieces(cut, [&](int64_t first, int64_t count) {
      Tensors own;
      for (size_t i = 0; i < inputs.size(); ++i) own.push_back(piece_of(inputs[i], cut.dims[i], first, count));
      auto piece = cut.compute(own);
      if (!all.defined()) {
        auto sizes = piece.sizes().vec();
        sizes[static_cast<size_t>(cut.dim)] = cut.num_tokens;
        all = at::empty(sizes, piece.options());
      }
      all.narrow(cut.dim, first, count).copy_(piece);
    });
    return all;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& cut = static_cast<Cut&>(*ctx->saved_data["cut"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    variable_list of_inputs(saved.size()), parameters, of_parameters;
    for_pieces(cut, [&](int64_t first, int64_t count) {
      variable_list own;
      at::Tensor result;
      {
        const at::AutoGradMode with_grad(true);
        const DeltaStrength at_that_of_forward(cut.strength);
        for (size_t i = 0; i < saved.size(); ++i)
          own.push_back(piece_of(saved[i].detach(), cut.dims[i], first, count).detach().set_requires_grad(ctx->needs_input_grad(i + 1)));
        result = cut.compute(own);
      }
      if (first == 0) {
        parameters = parameters_below(result, own);
        of_parameters.resize(parameters.size());
      }
      variable_list wanted = parameters;
      for (const auto& input : own) {
        if (input.requires_grad()) wanted.push_back(input);
      }
      if (wanted.empty()) return;
      auto found = torch::autograd::grad({result}, wanted, {grads[0].narrow(cut.dim, first, count)}, /*retain_graph=*/false,
                                         /*create_graph=*/false, /*allow_unused=*/true);
      size_t next = 0;
      for (auto& sum : of_parameters) add(sum, found[next++]);
      for (size_t i = 0; i < own.size(); ++i) {
        if (!own[i].requires_grad()) continue;
        const auto& grad = found[next++];
        if (cut.dims[i] == kShared) {
          add(of_inputs[i], grad);
        } else if (grad.defined()) {
          if (!of_inputs[i].defined()) of_inputs[i] = at::empty_like(saved[i]);
          of_inputs[i].narrow(cut.dims[i], first, count).copy_(grad);
        }
      }
    });
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (of_parameters[i].defined()) torch::autograd::backward({parameters[i]}, {of_parameters[i]});
    }
    of_inputs.insert(of_inputs.begin(), 2, at::Tensor());  // none for how it is cut and the anchor
    return of_inputs;
  }
};

}  // namespace

at::Tensor by_tokens(const std::vector<TokenInput>& inputs, int64_t dim, int64_t at_once,
                     const std::function<at::Tensor(const Tensors& inputs)>& compute, bool has_parameters) {
  auto cut = c10::make_intrusive<Cut>();
  Tensors all;
  for (const auto& input : inputs) {
    all.push_back(input.tensor);
    cut->dims.push_back(input.dim);
    if (input.dim != kShared) cut->num_tokens = input.tensor.size(input.dim);
  }
  if (at_once <= 0 || cut->num_tokens <= at_once) return compute(all);
  cut->compute = compute;
  cut->dim = dim;
  cut->at_once = at_once;
  if (!at::GradMode::is_enabled()) return ByTokens::whole(*cut, all);
  // Parameters beside the inputs are not inputs of the function; one tensor that requires grad makes autograd call its backward all the
  // same.
  auto anchor = at::Tensor(all[0].new_zeros({})).set_requires_grad(has_parameters);
  return ByTokens::apply(cut, anchor, at::TensorList(all));
}

int64_t tokens_of_one_piece(const at::Tensor& x, int64_t dim) {
  const auto of_token = x.numel() / std::max<int64_t>(1, x.size(dim)) * int64_t{sizeof(float)};
  return std::max<int64_t>(1, (int64_t{32} << 20) / std::max<int64_t>(1, of_token));
}

int64_t set_tokens_at_once(Module& root, int64_t count) {
  int64_t num_modules = 0;
  root.visit([&](const std::string&, Module& module) {
    auto* of_tokens = dynamic_cast<GoesByTokens*>(&module);
    if (of_tokens == nullptr) return;
    of_tokens->tokens_at_once = count;
    ++num_modules;
  });
  return num_modules;
}

}  // namespace burnish::nn
