#include "models/blocks/gated_mlp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/silu.h>

#include "nn/recomputed_values.h"

namespace burnish::models {

namespace {

at::Tensor activated(GatedMlp::Gate kind, const at::Tensor& x) {
  return kind == GatedMlp::Gate::silu ? at::silu(x) : at::gelu(x, kind == GatedMlp::Gate::gelu ? "none" : "tanh");
}

}  // namespace

GatedMlp::GatedMlp(int64_t width, int64_t hidden, const at::TensorOptions& options, const Names& names, Gate gate)
    : kind_(gate), gate_(width, hidden, options, false), up_(width, hidden, options, false), down_(hidden, width, options, false) {
  own(names.gate, gate_);
  own(names.down, down_);
  own(names.up, up_);
}

at::Tensor GatedMlp::forward(const at::Tensor& x) const {
  auto layers = [this](const nn::Tensors& in) {
    return nn::recomputed(
        nn::forward_all({&gate_, &up_}, in[0]), [kind = kind_](const nn::Tensors& in) { return activated(kind, in[0]) * in[1]; },
        [&](const at::Tensor& hidden) { return down_.forward(hidden); });
  };
  return nn::by_tokens({{x}}, 1, tokens_at_once, layers, /*has_parameters=*/true);
}

}  // namespace burnish::models
