#include "models/families/flux3/blocks.h"

#include <ATen/TensorOperators.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::flux3 {

static mmdit::Widths widths_of(const Config& c) {
  return {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden, .with_biases = false, .is_gated = true};
}

Block::Block(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      width_(c.width()),
      qkv_(widths_of(c), options, mmdit::StreamQkv::kImage),
      out_(c.width(), c.width(), options, false),
      mlp_(widths_of(c), options) {
  own("attn", qkv_);
  own("attn.to_out.0", out_);
  own("ff", mlp_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto num_runs = in[0].size(1) / (3 * width_), num_tokens = in[1].size(0);
  const auto cos = here(in[1], 0), sin = here(in[2], 0);
  const nn::Tensors runs(in.begin() + 3, in.begin() + 3 + num_runs);
  const auto bias = std::ssize(in) > 3 + num_runs ? in.back() : at::Tensor();
  const auto m = in[0].chunk(3 * num_runs, -1);  // shift, scale, gate of each run
  nn::Tensors in_norms;
  for (size_t i = 0; i < runs.size(); ++i) in_norms.insert(in_norms.end(), {runs[i], m[3 * i + 1], m[3 * i]});
  auto parts = nn::recomputed(in_norms, mmdit::normed_by, [&](const nn::Tensors& normed) {
    auto projected = qkv_.project(normed[0]);
    projected.push_back(mlp_.forward(normed[0]));
    return projected;
  });
  const auto v = parts[2].transpose(1, 2);
  const auto weights = qkv_.norm_weights();
  auto attended = nn::recomputed({parts[0], parts[1], weights[0], weights[1], cos, sin}, mmdit::heads_of,
                                 [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v, bias, num_tokens)}; });
  const auto y = out_.forward(nn::merge_heads(attended[0])) + parts[3];
  nn::Tensors out;
  int64_t first = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto length = runs[i].size(1);
    out.push_back(kernels::gated_residual(runs[i], m[3 * i + 2], runs.size() == 1 ? y : y.narrow(1, first, length)));
    first += length;
  }
  return out;
}

}  // namespace burnish::models::flux3
