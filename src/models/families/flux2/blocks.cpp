#include "models/families/flux2/blocks.h"

#include <ATen/ops/cat.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::flux2 {

namespace {

constexpr double kHeadNormEps = 1e-6;

mmdit::Widths widths_of(const Config& c) {
  return {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = c.hidden, .with_biases = false, .is_gated = true};
}

/// Makes heads as mmdit::heads_of, of query and key that lie within one tensor.
nn::Tensors heads_of_fused(const nn::Tensors& in) {
  return mmdit::heads_of({in[0].contiguous(), in[1].contiguous(), in[2], in[3], in[4], in[5]});
}

}  // namespace

DoubleBlock::DoubleBlock(const Config& c, const at::TensorOptions& options)
    : mmdit::DoubleBlock(widths_of(c), options, {.image_mlp = "ff", .text_mlp = "ff_context"}) {}

SingleBlock::SingleBlock(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads),
      widths_(widths_of(c)),
      in_(c.width(), 3 * c.width() + 2 * c.hidden, options, false),
      out_(c.width() + c.hidden, c.width(), options, false),
      norm_q_(c.head_dim, kHeadNormEps, options),
      norm_k_(c.head_dim, kHeadNormEps, options) {
  own("attn.to_qkv_mlp_proj", in_);
  own("attn.to_out", out_);
  own("attn.norm_q", norm_q_);
  own("attn.norm_k", norm_k_);
}

nn::Tensors SingleBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &modulation_BM = in[1];
  const auto num_tokens = in[2].size(0);
  const auto cos = here(in[2], 0), sin = here(in[3], 0);
  auto m = modulation_BM.chunk(3, -1);  // shift, scale, gate
  auto fused =
      nn::recomputed({x, m[1], m[0]}, mmdit::normed_by, [&](const nn::Tensors& normed) { return nn::Tensors{in_.forward(normed[0])}; });
  const auto D = widths_.width();
  auto parts = fused[0].split_with_sizes({D, D, D, 2 * widths_.hidden}, -1);
  auto heads = [&](const at::Tensor& part) { return part.unflatten(-1, {widths_.num_heads, -1}); };
  const auto v = heads(parts[2]).transpose(1, 2);
  auto attended = nn::recomputed({heads(parts[0]), heads(parts[1]), norm_q_.weight, norm_k_.weight, cos, sin}, heads_of_fused,
                                 [&](const nn::Tensors& qk) { return nn::Tensors{attention_of(qk[0], qk[1], v, {}, num_tokens)}; });
  auto y = nn::recomputed(
      {attended[0], parts[3]},
      [](const nn::Tensors& in) {
        return at::cat({nn::merge_heads(in[0]), mmdit::swiglu(in[1])}, -1);
      },
      [&](const at::Tensor& both) { return out_.forward(both); });
  return {kernels::gated_residual(x, m[2], y)};
}

}  // namespace burnish::models::flux2
