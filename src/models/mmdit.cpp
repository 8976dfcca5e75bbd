#include "models/mmdit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/silu.h>

#include <cmath>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"

namespace burnish::models::mmdit {

namespace {
constexpr double kEps = 1e-6;
}  // namespace

at::Tensor time_projection(const at::Tensor& t_B, at::ScalarType dtype) {
  auto half = kTimeChannels / 2;
  auto freqs = (at::arange(half, t_B.options().dtype(at::kFloat)) * (-std::log(10000.0) / static_cast<double>(half))).exp();
  auto angles = (t_B.to(at::kFloat) * 1000.0).unsqueeze(1) * freqs.unsqueeze(0);
  return at::cat({angles.cos(), angles.sin()}, -1).to(dtype);
}

EmbedMlp::EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options) : linear_1_(in, out, options), linear_2_(out, out, options) {
  own("linear_1", linear_1_);
  own("linear_2", linear_2_);
}

at::Tensor EmbedMlp::forward(const at::Tensor& x) const { return linear_2_.forward(at::silu(linear_1_.forward(x))); }

FeedForward::FeedForward(int64_t width, int64_t hidden, const at::TensorOptions& options)
    : up_(width, hidden, options), down_(hidden, width, options) {
  own("net.0.proj", up_);
  own("net.2", down_);
}

at::Tensor FeedForward::forward(const at::Tensor& x) const { return down_.forward(kernels::gelu_tanh(up_.forward(x))); }

StreamQkv::StreamQkv(const Widths& c, const at::TensorOptions& options, const Names& names)
    : num_heads_(c.num_heads),
      q_(c.width(), c.width(), options),
      k_(c.width(), c.width(), options),
      v_(c.width(), c.width(), options),
      norm_q_(c.head_dim, kEps, options),
      norm_k_(c.head_dim, kEps, options) {
  own(names.q, q_);
  own(names.k, k_);
  own(names.v, v_);
  own(names.norm_q, norm_q_);
  own(names.norm_k, norm_k_);
}

StreamQkv::Out StreamQkv::forward(const at::Tensor& x_BLD, const at::Tensor& cos_LP, const at::Tensor& sin_LP) const {
  auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
  return {kernels::qk_norm_rope(heads(q_.forward(x_BLD)), norm_q_.weight, cos_LP, sin_LP, kEps),
          kernels::qk_norm_rope(heads(k_.forward(x_BLD)), norm_k_.weight, cos_LP, sin_LP, kEps),
          nn::split_heads(v_.forward(x_BLD), num_heads_)};
}

DoubleBlock::DoubleBlock(const Widths& c, const at::TensorOptions& options, const Names& names)
    : image_qkv_(c, options, StreamQkv::kImage),
      text_qkv_(c, options, StreamQkv::kText),
      to_out_(c.width(), c.width(), options),
      to_add_out_(c.width(), c.width(), options),
      image_mlp_(c.width(), c.hidden, options),
      text_mlp_(c.width(), c.hidden, options) {
  own("attn", image_qkv_);
  own("attn", text_qkv_);
  own("attn.to_out.0", to_out_);
  own("attn.to_add_out", to_add_out_);
  own(names.image_mlp, image_mlp_);
  own(names.text_mlp, text_mlp_);
}

nn::Tensors DoubleBlock::body(const nn::Tensors& in) {
  const auto &image = in[0], &text = in[1], &modulation_BM = in[2], &cos = in[3], &sin = in[4];
  const auto bias = in.size() > 5 ? in[5] : at::Tensor();
  const int64_t num_text = text.size(1), num_image = image.size(1);
  // Order of the six parts of each stream: shift, scale, gate of attention; shift, scale, gate of the MLP.
  auto m = modulation_BM.chunk(12, -1);
  nn::Tensors mi(m.begin(), m.begin() + 6), mt(m.begin() + 6, m.end());

  auto t = text_qkv_.forward(kernels::modulated_norm(text, mt[1], mt[0], kEps), cos.narrow(0, 0, num_text), sin.narrow(0, 0, num_text));
  auto i = image_qkv_.forward(kernels::modulated_norm(image, mi[1], mi[0], kEps), cos.narrow(0, num_text, num_image),
                              sin.narrow(0, num_text, num_image));
  auto joint = nn::merge_heads(
      nn::attention(at::cat({t.q_BHLD, i.q_BHLD}, 2), at::cat({t.k_BHLD, i.k_BHLD}, 2), at::cat({t.v_BHLD, i.v_BHLD}, 2), bias));

  auto finish = [](const at::Tensor& x, const at::Tensor& attended, const nn::Linear& out, const FeedForward& ff, const nn::Tensors& m) {
    auto mid = kernels::gated_residual(x, m[2], out.forward(attended));
    return kernels::gated_residual(mid, m[5], ff.forward(kernels::modulated_norm(mid, m[4], m[3], kEps)));
  };
  return {finish(image, joint.narrow(1, num_text, num_image), to_out_, image_mlp_, mi),
          finish(text, joint.narrow(1, 0, num_text), to_add_out_, text_mlp_, mt)};
}

}  // namespace burnish::models::mmdit
