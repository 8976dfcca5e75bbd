#include "models/families/ernie_image/blocks.h"

#include "kernels/gated_residual/gated_residual.h"
#include "models/blocks/modulated_rms_norm.h"

namespace burnish::models::ernie_image {

Block::Block(const Config& c, const at::TensorOptions& options)
    : attention_norm_(c.width, c.norm_eps, options),
      mlp_norm_(c.width, c.norm_eps, options),
      attention_({c.width, c.num_heads(), c.norm_eps, SelfAttention::Turn::halves}, options),
      mlp_(c.width, c.hidden, options, {.gate = "gate_proj", .up = "up_proj", .down = "linear_fc2"}, GatedMlp::Gate::gelu) {
  own("adaLN_sa_ln", attention_norm_);
  own("self_attention", attention_);
  own("adaLN_mlp_ln", mlp_norm_);
  own("mlp", mlp_);
}

nn::Tensors Block::body(const nn::Tensors& in) {
  const auto m = in[3].chunk(6, -1);  // shift, scale and gate of attention, then of the MLP
  const auto bias = in.size() > 4 ? in[4] : at::Tensor();
  auto before = [](const at::Tensor& x_BLD, const nn::RMSNorm& norm, const at::Tensor& scale, const at::Tensor& shift, const auto& use) {
    return nn::recomputed({x_BLD, norm.weight, scale, shift}, modulated_rms_norm(norm.eps()),
                          [&](const nn::Tensors& moved) { return use(moved[0]); });
  };
  auto projected = before(in[0], attention_norm_, m[1], m[0], [&](const at::Tensor& x) { return attention_.project(x); });
  auto mid = kernels::gated_residual(in[0], m[2], attention_.attend(projected, in[1], in[2], bias));
  auto moved = before(mid, mlp_norm_, m[4], m[3], [&](const at::Tensor& x) { return nn::Tensors{mlp_.forward(x)}; });
  return {kernels::gated_residual(mid, m[5], moved[0])};
}

}  // namespace burnish::models::ernie_image
