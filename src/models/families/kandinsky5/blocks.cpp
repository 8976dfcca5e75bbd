#include "models/families/kandinsky5/blocks.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/rms_norm.h>

#include <limits>

#include "kernels/qk_norm_rope/qk_norm_rope.h"
#include "nn/attention.h"
#include "nn/by_tokens.h"
#include "nn/modulation_in_fp32.h"

namespace burnish::models::kandinsky5 {

namespace {

/// What norms of heads add, which are computed in fp32 (torch.nn.RMSNorm without an eps of its own).
constexpr double kHeadEps = std::numeric_limits<float>::epsilon();

nn::Tensors normed(const nn::Tensors& in) { return {nn::modulated(in[0], in[1], in[2], kTokenEps)}; }

at::Tensor as_heads(const at::Tensor& x_BLD, int64_t num_heads) { return x_BLD.unflatten(-1, {num_heads, -1}); }

/// {query, key [B, L, D], weights of their norms, cos, sin} -> {query, key [B, H, L, E]}, ready for attention.
nn::Compute turned_heads(int64_t num_heads) {
  return [num_heads](const nn::Tensors& in) {
    auto turned = [&](size_t i) { return kernels::qk_norm_rope(as_heads(in[i], num_heads), in[i + 2], in[4], in[5], kHeadEps); };
    return nn::Tensors{turned(0), turned(1)};
  };
}

/// {query [B, L, D], key [B, T, D], weights of their norms} -> {query [B, H, L, E], key [B, H, T, E]}.
nn::Compute still_heads(int64_t num_heads) {
  return [num_heads](const nn::Tensors& in) {
    auto still = [&](size_t i) { return at::rms_norm(as_heads(in[i], num_heads), in[i + 2].sizes(), in[i + 2], kHeadEps).transpose(1, 2); };
    return nn::Tensors{still(0), still(1)};
  };
}

}  // namespace

Attention::Attention(const Config& c, const at::TensorOptions& options)
    : num_heads_(c.num_heads()),
      q_(c.width, c.width, options),
      k_(c.width, c.width, options),
      v_(c.width, c.width, options),
      out_(c.width, c.width, options),
      norm_q_(c.head_dim(), kHeadEps, options),
      norm_k_(c.head_dim(), kHeadEps, options) {
  own("to_query", q_);
  own("to_key", k_);
  own("to_value", v_);
  own("query_norm", norm_q_);
  own("key_norm", norm_k_);
  own("out_layer", out_);
}

at::Tensor Attention::to_itself(const nn::Tensors& in_norm, const at::Tensor& cos, const at::Tensor& sin, const Attend& attend) const {
  auto qkv = nn::recomputed(in_norm, normed, [&](const nn::Tensors& x) { return nn::forward_all({&q_, &k_, &v_}, x[0]); });
  const auto v = nn::split_heads(qkv[2], num_heads_);
  auto attended = nn::recomputed({qkv[0], qkv[1], norm_q_.weight, norm_k_.weight, cos, sin}, turned_heads(num_heads_),
                                 [&](const nn::Tensors& qk) { return nn::Tensors{attend(qk[0], qk[1], v)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

at::Tensor Attention::to_text(const nn::Tensors& in_norm, const at::Tensor& text, const at::Tensor& bias) const {
  auto query = nn::recomputed(in_norm, normed, [&](const nn::Tensors& x) { return nn::Tensors{q_.forward(x[0])}; })[0];
  auto of_text = nn::forward_all({&k_, &v_}, text);
  const auto v = nn::split_heads(of_text[1], num_heads_);
  auto attended = nn::recomputed({query, of_text[0], norm_q_.weight, norm_k_.weight}, still_heads(num_heads_),
                                 [&](const nn::Tensors& qk) { return nn::Tensors{nn::attention(qk[0], qk[1], v, bias)}; });
  return out_.forward(nn::merge_heads(attended[0]));
}

FeedForward::FeedForward(const Config& c, const at::TensorOptions& options)
    : in_(c.width, c.hidden, options, false), out_(c.hidden, c.width, options, false) {
  own("in_layer", in_);
  own("out_layer", out_);
}

at::Tensor FeedForward::forward(const nn::Tensors& in_norm) const {
  auto layers = [this](const nn::Tensors& x) {
    return nn::recomputed(
        {in_.forward(x[0])}, [](const nn::Tensors& hidden) { return at::gelu(hidden[0]); },
        [&](const at::Tensor& hidden) { return out_.forward(hidden); });
  };
  return nn::recomputed(in_norm, normed, [&](const nn::Tensors& x) {
    return nn::Tensors{nn::by_tokens({{x[0]}}, 1, tokens_at_once, layers, /*has_parameters=*/true)};
  })[0];
}

TextBlock::TextBlock(const Config& c, const at::TensorOptions& options) : attention_(c, options), feed_forward_(c, options) {
  own("self_attention", attention_);
  own("feed_forward", feed_forward_);
}

// The parts of a modulation are shift, scale and gate, of one layer behind the other.
nn::Tensors TextBlock::body(const nn::Tensors& in) {
  const auto m = in[1].chunk(6, -1);
  const auto bias = in.size() > 4 ? in[4] : at::Tensor();
  auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return nn::attention(q, k, v, bias); };
  auto x = nn::gated(in[0], m[2], attention_.to_itself({in[0], m[1], m[0]}, in[2], in[3], attend));
  return {nn::gated(x, m[5], feed_forward_.forward({x, m[4], m[3]}))};
}

PictureBlock::PictureBlock(const Config& c, const at::TensorOptions& options)
    : SharesTokens(c.num_heads()), to_itself_(c, options), to_text_(c, options), feed_forward_(c, options) {
  own("self_attention", to_itself_);
  own("cross_attention", to_text_);
  own("feed_forward", feed_forward_);
}

nn::Tensors PictureBlock::body(const nn::Tensors& in) {
  const auto m = in[1].chunk(9, -1);
  const auto &text = in[2], &cos = in[3], &sin = in[4];
  const auto bias = in.size() > 5 ? in[5] : at::Tensor();
  auto attend = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return attention_of(q, k, v, {}, cos.size(0)); };
  auto x = nn::gated(in[0], m[2], to_itself_.to_itself({in[0], m[1], m[0]}, here(cos, 0), here(sin, 0), attend));
  x = nn::gated(x, m[5], to_text_.to_text({x, m[4], m[3]}, text, bias));
  return {nn::gated(x, m[8], feed_forward_.forward({x, m[7], m[6]}))};
}

}  // namespace burnish::models::kandinsky5
