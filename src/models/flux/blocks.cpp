#include "models/flux/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "nn/attention.h"
#include "nn/remade.h"

namespace burnish::models::flux {

namespace {

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
  const auto further = mmdit::further_in(in, 4);
  auto m = modulation_BM.chunk(3, -1);  // shift, scale, gate
  auto projected = nn::remade({x, m[1], m[0]}, mmdit::normed_by, [&](const nn::Tensors& normed) {
    auto all = qkv_.project(normed[0]);
    all.push_back(proj_mlp_.forward(normed[0]));
    return all;
  });
  const auto v = projected[2].transpose(1, 2), hidden = projected[3];
  const auto weights = qkv_.norm_weights();
  auto attended = nn::remade({projected[0], projected[1], weights[0], weights[1], cos, sin}, mmdit::heads_of, [&](const nn::Tensors& qk) {
    auto out = nn::attention(qk[0], qk[1], v, further.bias);
    return nn::Tensors{further.keys.defined() ? out + nn::attention(qk[0], further.keys, further.values) : out};
  });
  auto y = nn::remade(
      {attended[0], hidden},
      [](const nn::Tensors& in) {
        return at::cat({nn::merge_heads(in[0]), kernels::gelu_tanh(in[1])}, -1);
      },
      [&](const at::Tensor& both) { return proj_out_.forward(both); });
  return {kernels::gated_residual(x, m[2], y)};
}

}  // namespace burnish::models::flux
