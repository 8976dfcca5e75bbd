#include "models/blocks/cross_attention.h"

#include <ATen/ops/rms_norm.h>

#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models {

namespace {

/// {query [B, L, H, P], key [B, T, H, P], weights of their norms} -> {query [B, H, L, P], key [B, H, T, P]}, ready for attention.
nn::Compute heads_by(double eps) {
  return [eps](const nn::Tensors& in) {
    auto normed = [&](size_t i) { return at::rms_norm(in[i], in[i + 2].sizes(), in[i + 2], eps).transpose(1, 2); };
    return nn::Tensors{normed(0), normed(1)};
  };
}

}  // namespace

CrossAttention::CrossAttention(const Sizes& s, const at::TensorOptions& options)
    : num_heads_(s.num_heads),
      q_(s.width, s.width, options, s.has_biases),
      k_(s.read_width, s.width, options, s.has_biases),
      v_(s.read_width, s.width, options, s.has_biases),
      out_(s.width, s.width, options, s.has_biases),
      norm_q_(s.width / s.num_heads, s.norm_eps, options),
      norm_k_(s.width / s.num_heads, s.norm_eps, options) {
  own(s.names.q, q_);
  own(s.names.k, k_);
  own(s.names.v, v_);
  own(s.names.out, out_);
  own(s.names.norm_q, norm_q_);
  own(s.names.norm_k, norm_k_);
}

at::Tensor CrossAttention::as_heads(const at::Tensor& x) const { return x.unflatten(-1, {num_heads_, -1}); }

at::Tensor CrossAttention::query(const at::Tensor& x_BLD) const { return as_heads(q_.forward(x_BLD)); }

nn::Tensors CrossAttention::keys_and_values(const at::Tensor& read_BTE) const {
  auto both = nn::forward_all({&k_, &v_}, read_BTE);
  return {as_heads(both[0]), as_heads(both[1])};
}

nn::Tensors CrossAttention::project(const at::Tensor& x_BLD) const {
  auto all = nn::forward_all({&q_, &k_, &v_}, x_BLD);
  return {as_heads(all[0]), as_heads(all[1]), as_heads(all[2])};
}

at::Tensor CrossAttention::attend(const nn::Tensors& projected, const at::Tensor& bias) const {
  const auto v_BHTP = projected[2].transpose(1, 2);
  auto attended = nn::recomputed({projected[0], projected[1], norm_q_.weight, norm_k_.weight}, heads_by(norm_q_.eps()),
                                 [&](const nn::Tensors& qk) { return nn::Tensors{nn::attention(qk[0], qk[1], v_BHTP, bias)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

}  // namespace burnish::models
