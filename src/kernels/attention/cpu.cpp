#include "kernels/attention/cpu.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/cpu_head.h"

namespace burnish::kernels {

namespace {

/// Rows whose numbers lie side by side, and whose pairs of numbers are whole words.
bool has_words(const at::Tensor& x) {
  return x.stride(3) == 1 && x.stride(0) % 2 == 0 && x.stride(1) % 2 == 0 && x.stride(2) % 2 == 0 && x.storage_offset() % 2 == 0;
}

struct AttentionCpu : torch::autograd::Function<AttentionCpu> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& bias_given, double scale) {
    RECORD_FUNCTION("burnish::attention", std::vector<c10::IValue>({q, k, v}));
    const auto bias = bias_given.value_or(at::Tensor());
    auto y = at::empty_like(q);
    auto logs = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
    attention_forward({q, k, v, bias, static_cast<float>(scale)}, y, logs);
    ctx->save_for_backward({q, k, v, bias, y, logs});
    ctx->saved_data["scale"] = scale;
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    const auto saved = ctx->get_saved_variables();
    const auto &q = saved[0], &k = saved[1], &v = saved[2];
    RECORD_FUNCTION("burnish::attention_backward", std::vector<c10::IValue>({grads[0], q, k}));
    const auto dy = has_words(grads[0]) ? grads[0] : grads[0].contiguous();
    auto like = [](const at::Tensor& x) { return at::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2); };
    auto dq = like(q), dk = like(k), dv = like(v);
    attention_backward({q, k, v, saved[3], static_cast<float>(ctx->saved_data["scale"].toDouble())}, {saved[4], saved[5], dy},
                       {dq, dk, dv});
    return {dq, dk, dv, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool attention_fits_cpu(const AttentionCall& call) {
  const auto &q = call.q, &k = call.k, &v = call.v;
  if (!multiplies_pairs(q) || call.causal) return false;
  if (q.dim() != 4 || q.numel() == 0 || k.numel() == 0 || q.size(3) % 2 != 0 || k.sizes() != v.sizes()) return false;
  const bool is_one_shape = k.dim() == 4 && k.size(0) == q.size(0) && k.size(1) == q.size(1) && k.size(3) == q.size(3);
  const bool is_of_keys = !call.bias.defined() || (call.bias.dim() == 4 && call.bias.size(2) == 1 && !call.bias.requires_grad());
  return is_one_shape && is_of_keys && call.scale > 0 && has_words(q) && has_words(k) && has_words(v);
}

at::Tensor attention_cpu(const AttentionCall& call) {
  std::optional<at::Tensor> bias;
  if (call.bias.defined()) bias = call.bias.to(at::kFloat).expand({call.q.size(0), call.q.size(1), 1, call.k.size(2)});
  return AttentionCpu::apply(call.q, call.k, call.v, bias, call.scale);
}

}  // namespace burnish::kernels
