#include "models/families/longcat_video/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "nn/attention.h"
#include "nn/modulation_in_fp32.h"
#include "nn/recomputed_values.h"

namespace burnish::models::longcat_video {

namespace {

constexpr double kHeadEps = 1e-6;

/// Tokens that are modulated alike: shift, scale and gate of attention, then of the MLP.
struct ModulatedTokens {
  at::Tensor x_BLD;
  nn::Tensors modulation;
};

}  // namespace

Attention::Attention(const Config& c, const at::TensorOptions& options)
    : HeadAttention({.width = c.width, .num_heads = c.num_heads, .norm_eps = kHeadEps, .names = {.norm_q = "q_norm", .norm_k = "k_norm"}},
                    options),
      q_(c.width, c.width, options),
      k_(c.width, c.width, options),
      v_(c.width, c.width, options),
      out_(c.width, c.width, options) {
  own("to_q", q_);
  own("to_k", k_);
  own("to_v", v_);
  own_norms();
  own("proj", out_);
}

at::Tensor Attention::attend(const nn::Tensors& projected, const Places& own, const Places* given) const {
  const auto num_given = given != nullptr ? given->cos_LP.size(0) : 0;
  const nn::Streams streams(
      shares(), given != nullptr ? std::vector<int64_t>{num_given, own.cos_LP.size(0)} : std::vector<int64_t>{own.cos_LP.size(0)});
  auto table = [&](at::Tensor Places::*of) { return streams.by_place(given != nullptr ? at::cat({given->*of, own.*of}, 0) : own.*of, 0); };
  auto among = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    if (given == nullptr) return nn::attention(q, k, v);
    const auto all_q = streams.in_order(q, 2), all_k = streams.in_order(k, 2), all_v = streams.in_order(v, 2);
    auto first = [&](const at::Tensor& x) { return x.narrow(2, 0, num_given); };
    auto of_given = nn::attention(first(all_q), first(all_k), first(all_v));
    auto of_own = nn::attention(all_q.slice(2, num_given), all_k, all_v);
    // A token's heads lie side by side, as they are merged.
    auto joined = at::cat({of_given.transpose(1, 2), of_own.transpose(1, 2)}, 1).transpose(1, 2);
    return streams.by_place(joined, 2);
  };
  return out_.forward(attended(projected, table(&Places::cos_LP), table(&Places::sin_LP), among));
}

Block::Block(const Config& c, const at::TensorOptions& options)
    : attn_(c, options),
      cross_norm_(c.width, kTokenEps, options),
      cross_attn_({.width = c.width,
                   .read_width = c.width,
                   .num_heads = c.num_heads,
                   .norm_eps = kHeadEps,
                   .has_biases = true,
                   .names = {.out = "proj", .norm_q = "q_norm", .norm_k = "k_norm"}},
                  options),
      ffn_(c.width, c.hidden, options, {.gate = "w1", .up = "w3", .down = "w2"}) {
  own("attn", attn_);
  own("pre_crs_attn_norm", cross_norm_);
  own("cross_attn", cross_attn_);
  own("ffn", ffn_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto &text = in[2], &bias = in[3];
  const Places own{in[4], in[5]};
  const bool has_given = in.size() > 6;
  const Places given = has_given ? Places{in[8], in[9]} : Places{};
  std::vector<ModulatedTokens> runs{{in[0], in[1].chunk(6, -1)}};
  if (has_given) runs.insert(runs.begin(), {in[6], in[7].chunk(6, -1)});
  auto in_norms = [&](size_t shift) {
    nn::Tensors all;
    for (const auto& run : runs) all.insert(all.end(), {run.x_BLD, run.modulation[shift + 1], run.modulation[shift]});
    return all;
  };
  auto add = [&](size_t gate, const at::Tensor& y) {
    int64_t begin = 0;
    for (auto& run : runs) {
      const auto count = run.x_BLD.size(1);
      run.x_BLD = nn::gated(run.x_BLD, run.modulation[gate], runs.size() == 1 ? y : y.narrow(1, begin, count));
      begin += count;
    }
  };
  const auto normed = nn::modulated_runs(kTokenEps);

  auto projected = nn::recomputed(in_norms(0), normed, [&](const nn::Tensors& x) { return attn_.project(x[0]); });
  add(2, attn_.attend(projected, own, has_given ? &given : nullptr));
  auto& tokens = runs.back().x_BLD;
  const auto of_text = cross_attn_.keys_and_values(text);
  tokens = tokens + cross_norm_.before(
                        [&](const at::Tensor& x) {
                          return cross_attn_.attend({cross_attn_.query(x), of_text[0], of_text[1]}, bias);
                        },
                        tokens);
  add(5, nn::recomputed(in_norms(3), normed, [&](const nn::Tensors& x) { return nn::Tensors{ffn_.forward(x[0])}; })[0]);
  if (has_given) return {runs[1].x_BLD, runs[0].x_BLD};
  return {runs[0].x_BLD};
}

}  // namespace burnish::models::longcat_video
