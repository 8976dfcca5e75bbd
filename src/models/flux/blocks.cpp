#include "models/flux/blocks.h"

#include <ATen/ops/cat.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"

namespace burnish::models::flux {

namespace {
constexpr double kNormEps = 1e-6;
constexpr StreamQkv::Names kImageNames{"to_q", "to_k", "to_v", "norm_q", "norm_k"};
constexpr StreamQkv::Names kTextNames{"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"};
}  // namespace

FeedForward::FeedForward(int64_t width, int64_t hidden, const at::TensorOptions& options)
    : up_(width, hidden, options), down_(hidden, width, options) {
  own("net.0.proj", up_);
  own("net.2", down_);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const { return down_.forward(kernels::gelu_tanh(up_.forward(x))); }

StreamQkv::StreamQkv(const Config& c, const at::TensorOptions& options, const Names& names)
    : num_heads_(c.num_heads),
      q_(c.width(), c.width(), options),
      k_(c.width(), c.width(), options),
      v_(c.width(), c.width(), options),
      norm_q_(c.head_dim, kNormEps, options),
      norm_k_(c.head_dim, kNormEps, options) {
  own(names.q, q_);
  own(names.k, k_);
  own(names.v, v_);
  own(names.norm_q, norm_q_);
  own(names.norm_k, norm_k_);
}

StreamQkv::Out StreamQkv::forward(const at::Tensor& x_BLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const {
  auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
  return {kernels::qk_norm_rope(heads(q_.forward(x_BLD)), norm_q_.weight, cos_LP, sin_LP, kNormEps),
          kernels::qk_norm_rope(heads(k_.forward(x_BLD)), norm_k_.weight, cos_LP, sin_LP, kNormEps),
          nn::split_heads(v_.forward(x_BLD), num_heads_)};
}

DoubleBlock::DoubleBlock(const Config& c, const at::TensorOptions& options)
    : image_qkv_(c, options, kImageNames),
      text_qkv_(c, options, kTextNames),
      to_out_(c.width(), c.width(), options),
      to_add_out_(c.width(), c.width(), options),
      ff_(c.width(), static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width())), options),
      ff_context_(c.width(), static_cast<int64_t>(c.mlp_ratio * static_cast<double>(c.width())), options) {
  own("attn", image_qkv_);
  own("attn", text_qkv_);
  own("attn.to_out.0", to_out_);
  own("attn.to_add_out", to_add_out_);
  own("ff", ff_);
  own("ff_context", ff_context_);
}

nn::Tensors DoubleBlock::body(const nn::Tensors& in) {
  const auto &image = in[0], &text = in[1], &modulation_BM = in[2], &cos = in[3], &sin = in[4];
  const int64_t num_text = text.size(1), num_image = image.size(1);
  // Order of the six parts of each stream: shift, scale, gate of attention; shift, scale, gate of the MLP.
  auto m = modulation_BM.chunk(12, -1);
  nn::Tensors mi(m.begin(), m.begin() + 6), mt(m.begin() + 6, m.end());

  auto t = text_qkv_.forward(kernels::modulated_norm(text, mt[1], mt[0], kNormEps), cos.narrow(0, 0, num_text), sin.narrow(0, 0, num_text));
  auto i = image_qkv_.forward(kernels::modulated_norm(image, mi[1], mi[0], kNormEps), cos.narrow(0, num_text, num_image),
                              sin.narrow(0, num_text, num_image));
  auto joint =
      nn::merge_heads(nn::attention(at::cat({t.q_BHLD, i.q_BHLD}, 2), at::cat({t.k_BHLD, i.k_BHLD}, 2), at::cat({t.v_BHLD, i.v_BHLD}, 2)));

  auto finish = [](const at::Tensor& x, const at::Tensor& attended, const nn::Linear& out, const FeedForward& ff, const nn::Tensors& m) {
    auto mid = kernels::gated_residual(x, m[2], out.forward(attended));
    return kernels::gated_residual(mid, m[5], ff.forward(kernels::modulated_norm(mid, m[4], m[3], kNormEps)));
  };
  return {finish(image, joint.narrow(1, num_text, num_image), to_out_, ff_, mi),
          finish(text, joint.narrow(1, 0, num_text), to_add_out_, ff_context_, mt)};
}

SingleBlock::SingleBlock(const Config& c, const at::TensorOptions& options)
    : qkv_(c, options, kImageNames),
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
