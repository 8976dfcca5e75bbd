#include "models/flux/blocks.h"

#include <ATen/ops/cat.h>

#include "kernels/gated_residual/gated_residual.h"
#include "kernels/gelu_tanh/gelu_tanh.h"
#include "kernels/modulated_norm/modulated_norm.h"
#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/remade.h"

namespace burnish::models::flux {

namespace {
constexpr double kNormEps = 1e-6;
constexpr StreamQkv::Names kImageNames{"to_q", "to_k", "to_v", "norm_q", "norm_k"};
constexpr StreamQkv::Names kTextNames{"add_q_proj", "add_k_proj", "add_v_proj", "norm_added_q", "norm_added_k"};

/// {x, scale, shift} -> {modulated norm}.
nn::Tensors normed_by(const nn::Tensors& in) { return {kernels::modulated_norm(in[0], in[1], in[2], kNormEps)}; }

/// {query, key, weights of their norms, cos, sin} -> {query, key}, ready for attention.
nn::Tensors heads_of(const nn::Tensors& in) {
  return {kernels::qk_norm_rope(in[0], in[2], in[4], in[5], kNormEps), kernels::qk_norm_rope(in[1], in[3], in[4], in[5], kNormEps)};
}

/// {query, key, value and weights of norms of text, the same of image, cos, sin} -> {query, key, value} of all tokens, ready for attention.
nn::Tensors joint_heads(const nn::Tensors& in) {
  const auto &cos = in[10], &sin = in[11];
  const int64_t num_text = in[0].size(1), num_image = in[5].size(1);
  auto t = heads_of({in[0], in[1], in[3], in[4], cos.narrow(0, 0, num_text), sin.narrow(0, 0, num_text)});
  auto i = heads_of({in[5], in[6], in[8], in[9], cos.narrow(0, num_text, num_image), sin.narrow(0, num_text, num_image)});
  return {at::cat({t[0], i[0]}, 2), at::cat({t[1], i[1]}, 2), at::cat({in[2].transpose(1, 2), in[7].transpose(1, 2)}, 2)};
}

nn::Tensors attend(const nn::Tensors& qkv) { return {nn::attention(qkv[0], qkv[1], qkv[2])}; }
}  // namespace

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

nn::Tensors StreamQkv::project(const at::Tensor& x_BLD) const {
  auto heads = [&](const at::Tensor& y) { return y.unflatten(-1, {num_heads_, -1}); };
  return {heads(q_.forward(x_BLD)), heads(k_.forward(x_BLD)), heads(v_.forward(x_BLD))};
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

  nn::Tensors in_heads;
  auto add_heads = [&](const StreamQkv& qkv, const at::Tensor& x, const nn::Tensors& m) {
    auto projected = nn::remade({x, m[1], m[0]}, normed_by, [&](const nn::Tensors& normed) { return qkv.project(normed[0]); });
    in_heads.insert(in_heads.end(), projected.begin(), projected.end());
    for (const auto& weight : qkv.norm_weights()) in_heads.push_back(weight);
  };
  add_heads(text_qkv_, text, mt);
  add_heads(image_qkv_, image, mi);
  in_heads.insert(in_heads.end(), {cos, sin});
  auto joint = nn::merge_heads(nn::remade(in_heads, joint_heads, attend)[0]);

  auto finish = [](const at::Tensor& x, const at::Tensor& attended, const nn::Linear& out, const FeedForward& ff, const nn::Tensors& m) {
    auto mid = kernels::gated_residual(x, m[2], out.forward(attended));
    auto y = nn::remade({mid, m[4], m[3]}, normed_by, [&](const nn::Tensors& normed) { return nn::Tensors{ff.forward(normed[0])}; });
    return kernels::gated_residual(mid, m[5], y[0]);
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
  auto projected = nn::remade({x, m[1], m[0]}, normed_by, [&](const nn::Tensors& normed) {
    auto all = qkv_.project(normed[0]);
    all.push_back(proj_mlp_.forward(normed[0]));
    return all;
  });
  const auto v = projected[2].transpose(1, 2), hidden = projected[3];
  const auto weights = qkv_.norm_weights();
  auto attended = nn::remade({projected[0], projected[1], weights[0], weights[1], cos, sin}, heads_of, [&](const nn::Tensors& qk) {
    return attend({qk[0], qk[1], v});
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
