#include "models/flux/blocks.h"

#include <ATen/ops/cat.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {

constexpr double kNormEps = 1e-6;

mmdit::Widths block_widths(const Config& c) {
  return {.num_heads = c.num_heads, .head_dim = c.head_dim, .hidden = static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width()))};
}

}  // namespace

DoubleBlock::DoubleBlock(const Config& c, const at::TensorOptions& options)
    : mmdit::DoubleBlock(block_widths(c), options, {.image_mlp = "ff", .text_mlp = "ff_context"}) {}

SingleBlock::SingleBlock(const Config& c, const at::TensorOptions& options)
    : qkv_(block_widths(c), options, mmdit::StreamQkv::kImage),
      proj_mlp_(c.width(), static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width())), options),
      proj_out_(c.width() + static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width())), c.width(), options) {
  own("attn", qkv_);
  own("proj_mlp", proj_mlp_);
  own("proj_out", proj_out_);
}

nn::Tensors SingleBlock::body(const nn::Tensors& in) {
  const auto &x = in[0], &modulation_BM = in[1], &cos = in[2], &sin = in[3];
  auto m = modulation_BM.chunk(3, -1);  // shift, scale, gate
  auto normed = kernels::modulated_norm(x, m[1], m[0], kNormEps);
  auto mlp = kernels::gelu_tanh(proj_mlp_.forward(normed));
  auto [q, k, v] = qkv_.forward(normed, cos, sin);
  auto attended = nn::merge_heads(nn::attention(q, k, v));
  return {kernels::gated_residual(x, m[2], proj_out_.forward(at::cat({attended, mlp}, -1)))};
}

}  // namespace burnish::models::flux
