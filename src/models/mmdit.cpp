#include "models/mmdit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/remade.h"

namespace burnish::models::mmdit {

namespace {
constexpr double kEps = 1e-6;

/// {query, key, value and weights of norms of text, the same of image, cos, sin} -> {query, key, value} of all tokens, ready for attention.
nn::Tensors joint_heads(const nn::Tensors& in) {
  const auto &cos = in[10], &sin = in[11];
  const int64_t num_text = in[0].size(1), num_image = in[5].size(1);
  auto t = heads_of({in[0], in[1], in[3], in[4], cos.narrow(0, 0, num_text), sin.narrow(0, 0, num_text)});
  auto i = heads_of({in[5], in[6], in[8], in[9], cos.narrow(0, num_text, num_image), sin.narrow(0, num_text, num_image)});
  return {at::cat({t[0], i[0]}, 2), at::cat({t[1], i[1]}, 2), at::cat({in[2].transpose(1, 2), in[7].transpose(1, 2)}, 2)};
}
}  // namespace

nn::Tensors with_further(nn::Tensors inputs, const Further& further) {
  if (further.bias.defined()) inputs.push_back(further.bias);
  if (further.keys.defined()) inputs.insert(inputs.end(), {further.keys, further.values});
  return inputs;
}

Further further_in(const nn::Tensors& inputs, size_t count) {
  Further further;
  if ((inputs.size() - count) % 2 == 1) further.bias = inputs[count];
  if (inputs.size() - count >= 2) {
    further.keys = inputs[inputs.size() - 2];
    further.values = inputs[inputs.size() - 1];
  }
  return further;
}

nn::Tensors normed_by(const nn::Tensors& in) { return {kernels::modulated_norm(in[0], in[1], in[2], kEps)}; }

nn::Tensors heads_of(const nn::Tensors& in) {
  return {kernels::qk_norm_rope(in[0], in[2], in[4], in[5], kEps), kernels::qk_norm_rope(in[1], in[3], in[4], in[5], kEps)};
}

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

at::Tensor FeedForward::forward(const at::Tensor& x) const {
  return nn::remade(
      {up_.forward(x)}, [](const auto& in) { return kernels::gelu_tanh(in[0]); },
      [&](const at::Tensor& hidden) { return down_.forward(hidden); });
}

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

nn::Tensors StreamQkv::project(const at::Tensor& x_BLD) const {
  auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
  return {heads(q_.forward(x_BLD)), heads(k_.forward(x_BLD)), heads(v_.forward(x_BLD))};
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
  const auto further = further_in(in, 5);
  const int64_t num_text = text.size(1), num_image = image.size(1);
  // Order of the six parts of each stream: shift, scale, gate of attention; shift, scale, gate of the MLP.
  auto m = modulation_BM.chunk(12, -1);
  nn::Tensors mi(m.begin(), m.begin() + 6), mt(m.begin() + 6, m.end());

  nn::Tensors in_heads;
  auto add_heads = [&](const StreamQkv& qkv, const at::Tensor& x, const nn::Tensors& m) {
    auto projected = nn::remade({x, m[1], m[0]}, normed_by, [&](const nn::Tensors& normed) { return qkv.project(normed[0]); });
    in_heads.insert(in_heads.end(), projected.begin(), projected.end());
    for (const auto& weight : qkv.norm_weights()) in_heads.push_back(weight);
  };
  add_heads(text_qkv_, text, mt);
  add_heads(image_qkv_, image, mi);
  in_heads.insert(in_heads.end(), {cos, sin});
  auto attend = [&](const nn::Tensors& qkv) { return nn::Tensors{nn::attention(qkv[0], qkv[1], qkv[2], further.bias)}; };
  auto joint = nn::merge_heads(nn::remade(in_heads, joint_heads, attend)[0]);
  auto of_image = joint.narrow(1, num_text, num_image);
  if (further.keys.defined()) {
    auto query = kernels::qk_norm_rope(in_heads[5], in_heads[8], at::ones_like(cos.narrow(0, num_text, num_image)),
                                       at::zeros_like(sin.narrow(0, num_text, num_image)), kEps);
    of_image = of_image + nn::merge_heads(nn::attention(query, further.keys, further.values));
  }

  auto finish = [](const at::Tensor& x, const at::Tensor& attended, const nn::Linear& out, const FeedForward& ff, const nn::Tensors& m) {
    auto mid = kernels::gated_residual(x, m[2], out.forward(attended));
    auto y = nn::remade({mid, m[4], m[3]}, normed_by, [&](const nn::Tensors& normed) { return nn::Tensors{ff.forward(normed[0])}; });
    return kernels::gated_residual(mid, m[5], y[0]);
  };
  return {finish(image, of_image, to_out_, image_mlp_, mi), finish(text, joint.narrow(1, 0, num_text), to_add_out_, text_mlp_, mt)};
}

}  // namespace burnish::models::mmdit
