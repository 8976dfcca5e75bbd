#include "models/families/moss_image/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>

#include "kernels/gated_residual/gated_residual.h"
#include "models/blocks/modulated_rms_norm.h"
#include "models/text/rotate_halves.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::moss_image {

namespace {

constexpr double kMostGate = 4, kMostUp = 25;

/// Computes SiLU of the gate, times what it gates, where tanh keeps both within bounds.
at::Tensor bounded_swiglu(const at::Tensor& up, const at::Tensor& gate) {
  auto within = [](const at::Tensor& x, double most) { return at::tanh(x / most) * most; };
  return within(gate, kMostGate) * at::sigmoid(gate) * within(up, kMostUp);
}

/// Tells whether a block's inputs have references: a bias has four dimensions, they have three.
bool has_references(const nn::Tensors& inputs) { return inputs.size() > 4 && inputs[4].dim() == 3; }

}  // namespace

Block::Block(const Config& c, const at::TensorOptions& options)
    : eps_(kNormEps),
      attention_norm_(c.width, kNormEps, options),
      mlp_norm_(c.width, kNormEps, options),
      attention_({.width = c.width,
                  .num_heads = c.num_heads(),
                  .norm_eps = kNormEps,
                  .turn = SelfAttention::Turn::halves,
                  .names = {.q = "proj.q", .k = "proj.k", .v = "proj.v", .out = "proj.o", .norm_q = "q_norm", .norm_k = "k_norm"}},
                 options),
      up_gate_(c.width, 2 * c.hidden, options, false),
      down_(c.hidden, c.width, options, false) {
  own("norm1", attention_norm_);
  own("norm2", mlp_norm_);
  own("", attention_);
  own("proj.ffn_up_gate", up_gate_);
  own("proj.ffn_down", down_);
}

at::Tensor Block::feed_forward(const at::Tensor& x_BLD) const {
  auto layers = [this](const nn::Tensors& in) {
    return nn::recomputed(
        {up_gate_.forward(in[0])},
        [](const nn::Tensors& both) {
          const auto halves = both[0].chunk(2, -1);
          return bounded_swiglu(halves[0], halves[1]);
        },
        [&](const at::Tensor& hidden) { return down_.forward(hidden); });
  };
  return nn::by_tokens({{x_BLD}}, 1, tokens_at_once, layers, /*has_parameters=*/true);
}

at::Tensor Block::attend(const nn::Tensors& projected, const nn::Tensors& in, const at::Tensor& bias) const {
  const auto num_references = has_references(in) ? in[5].size(-2) : 0, num_tokens = in[2].size(-2);
  std::vector<int64_t> lengths{num_tokens};
  if (num_references > 0) lengths.insert(lengths.begin(), num_references);
  const nn::Streams streams(shares(), lengths);
  auto table = [&](size_t i) { return streams.by_place(num_references > 0 ? at::cat({in[i + 3], in[i]}, -2) : in[i], -2); };
  if (num_references == 0) return attention_.attend(projected, table(2), table(3), streams.bias_by_place(bias));
  return attention_.attend(projected, table(2), table(3), [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    nn::Tensors all;
    for (const auto& x : {q, k, v}) all.push_back(streams.in_order(x, 2));
    auto first = [&](const at::Tensor& x) { return x.narrow(2, 0, num_references); };
    auto of_references = nn::attention(first(all[0]), first(all[1]), first(all[2]));
    auto of_tokens = nn::attention(all[0].slice(2, num_references), all[1], all[2], bias);
    // A token's heads lie side by side, as they are merged.
    auto joined = at::cat({of_references.transpose(1, 2), of_tokens.transpose(1, 2)}, 1).transpose(1, 2);
    return streams.by_place(joined, 2);
  });
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto bias = in.back().dim() == 4 ? in.back() : at::Tensor();
  nn::Tensors runs{in[0]};
  if (has_references(in)) runs.insert(runs.begin(), in[4]);
  const auto m = in[1].chunk(runs.size() > 1 ? 12 : 6, -1);  // shift, scale and gate of attention, then of the MLP
  auto part = [&](size_t run, size_t number) { return m[(runs.size() > 1 && run == 0 ? 6 : 0) + number]; };
  auto before = [&](const nn::RMSNorm& norm, size_t shift, const auto& use) {
    nn::Tensors inputs;
    for (size_t run = 0; run < runs.size(); ++run)
      inputs.insert(inputs.end(), {runs[run], norm.weight, part(run, shift + 1), part(run, shift)});
    return nn::recomputed(inputs, modulated_rms_norm(eps_), [&](const nn::Tensors& moved) { return use(moved[0]); });
  };
  auto add = [&](size_t gate, const at::Tensor& y) {
    int64_t begin = 0;
    for (size_t run = 0; run < runs.size(); ++run) {
      const auto count = runs[run].size(1);
      runs[run] = kernels::gated_residual(runs[run], part(run, gate), runs.size() > 1 ? y.narrow(1, begin, count).contiguous() : y);
      begin += count;
    }
  };
  auto projected = before(attention_norm_, 0, [&](const at::Tensor& x) { return attention_.project(x); });
  add(2, attend(projected, in, bias));
  add(5, before(mlp_norm_, 3, [&](const at::Tensor& x) { return nn::Tensors{feed_forward(x)}; })[0]);
  if (runs.size() > 1) return {runs[1], runs[0]};
  return runs;
}

TextBlock::TextBlock(const Config& c, const at::TensorOptions& options)
    : num_heads_(c.num_heads()),
      attention_norm_(c.width, kNormEps, options),
      mlp_norm_(c.width, kNormEps, options),
      norm_q_(c.head_dim, kNormEps, options),
      norm_k_(c.head_dim, kNormEps, options),
      qkv_(c.width, 3 * c.width, options),
      out_(c.width, c.width, options),
      gate_(c.width, c.hidden, options),
      up_(c.width, c.hidden, options),
      down_(c.hidden, c.width, options) {
  own("norm1", attention_norm_);
  own("norm2", mlp_norm_);
  own("q_norm", norm_q_);
  own("k_norm", norm_k_);
  own("qkv", qkv_);
  own("proj", out_);
  own("ffn_gate", gate_);
  own("ffn_up", up_);
  own("ffn_down", down_);
}

nn::Tensors TextBlock::body(const nn::Tensors& in) {
  const auto qkv = qkv_.forward(attention_norm_.forward(in[0])).unflatten(-1, {3, num_heads_, -1}).unbind(2);
  auto turned = [&](const at::Tensor& x, const nn::RMSNorm& norm) {
    return text::rotate_halves(norm.forward(x.contiguous()).transpose(1, 2), in[1], in[2]);
  };
  auto attended =
      nn::attention(turned(qkv[0], norm_q_), turned(qkv[1], norm_k_), qkv[2].transpose(1, 2), in.size() > 3 ? in[3] : at::Tensor());
  auto mid = in[0] + out_.forward(nn::merge_heads(attended));
  const auto both = nn::forward_all({&up_, &gate_}, mlp_norm_.forward(mid));
  return {mid + down_.forward(bounded_swiglu(both[0], both[1]))};
}

}  // namespace burnish::models::moss_image
