#include "models/families/boogu/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "models/blocks/scaled_norm.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::boogu {

namespace {

constexpr double kHeadNormEps = 1e-5;
constexpr GatedMlp::Names kInMlp{.gate = "linear_1", .up = "linear_3", .down = "linear_2"};

HeadSizes heads_of(const Config& c) {
  return {.width = c.width, .num_heads = c.num_heads, .norm_eps = kHeadNormEps, .num_kv_heads = c.num_kv_heads};
}

/// {x, weight of its norm, scale, MLP's scale, MLP's shift, weight of the norm before the MLP} -> what the MLP reads: the norm of
/// (1 + MLP's scale) · norm(x) (1 + scale) + MLP's shift.
nn::Compute mlp_input_by(double eps) {
  return [eps](const nn::Tensors& in) {
    const auto normed = at::rms_norm(in[0], in[1].sizes(), in[1], eps) * (in[2] + 1).unsqueeze(1);
    return nn::Tensors{at::rms_norm(normed * (in[3] + 1).unsqueeze(1) + in[4].unsqueeze(1), in[5].sizes(), in[5], eps)};
  };
}

/// Tokens of no numbers before those of a picture, as many as there are of a text.
at::Tensor behind_nothing(const at::Tensor& heads_BIHP, int64_t num_text) {
  auto sizes = heads_BIHP.sizes().vec();
  sizes[1] = num_text;
  return at::cat({at::zeros(sizes, heads_BIHP.options()), heads_BIHP}, 1);
}

}  // namespace

SandwichBlock::Sizes single_block(const Config& c, bool is_modulated) {
  return {.attention = heads_of(c),
          .hidden = c.hidden,
          .norm_eps = Config::kNormEps,
          .is_given_modulation = is_modulated,
          .names = {
              .attention = "attn", .attention_norm1 = is_modulated ? "norm1.norm" : "norm1", .attention_norm2 = "norm2", .in_mlp = kInMlp}};
}

JointAttention::JointAttention(const Config& c, const at::TensorOptions& o)
    : HeadAttention(heads_of(c), o),
      out_(c.width, c.width, o, false),
      picture_q_(c.width, c.width, o, false),
      picture_k_(c.width, heads_of(c).kv_width(), o, false),
      picture_v_(c.width, heads_of(c).kv_width(), o, false),
      text_q_(c.width, c.width, o, false),
      text_k_(c.width, heads_of(c).kv_width(), o, false),
      text_v_(c.width, heads_of(c).kv_width(), o, false),
      text_out_(c.width, c.width, o, false),
      picture_out_(c.width, c.width, o, false) {
  own("processor.img_to_q", picture_q_);
  own("processor.img_to_k", picture_k_);
  own("processor.img_to_v", picture_v_);
  own("processor.instruct_to_q", text_q_);
  own("processor.instruct_to_k", text_k_);
  own("processor.instruct_to_v", text_v_);
  own("processor.instruct_out", text_out_);
  own("processor.img_out", picture_out_);
  own("to_out.0", out_);
  own_norms();
}

nn::Tensors JointAttention::project(Stream stream, const at::Tensor& x) const {
  return in_heads(stream == Stream::text ? nn::forward_all({&text_q_, &text_k_, &text_v_}, x)
                                         : nn::forward_all({&picture_q_, &picture_k_, &picture_v_}, x));
}

nn::Tensors JointAttention::attend(const nn::Tensors& text, const nn::Tensors& picture, const at::Tensor& cos, const at::Tensor& sin,
                                   const at::Tensor& bias) const {
  nn::Tensors both;
  for (size_t i = 0; i < text.size(); ++i) both.push_back(at::cat({text[i], picture[i]}, 1));
  const auto out =
      attended(both, cos, sin, [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) { return nn::attention(q, k, v, bias); });
  const auto num_text = text[0].size(1), num_picture = picture[0].size(1);
  const auto of_text = text_out_.forward(out.narrow(1, 0, num_text)),
             of_picture = picture_out_.forward(out.narrow(1, num_text, num_picture));
  const auto all = out_.forward(at::cat({of_text, of_picture}, 1));
  return {all.narrow(1, 0, num_text).contiguous(), all.narrow(1, num_text, num_picture).contiguous()};
}

DoubleBlock::StreamLayers::StreamLayers(const Config& c, const at::TensorOptions& o)
    : norm1(c.width, Config::kNormEps, o),
      norm2(c.width, Config::kNormEps, o),
      ffn_norm1(c.width, Config::kNormEps, o),
      attn_norm(c.width, Config::kNormEps, o),
      ffn_norm2(c.width, Config::kNormEps, o),
      feed_forward(c.width, c.hidden, o, kInMlp) {}

DoubleBlock::DoubleBlock(const Config& c, const at::TensorOptions& o)
    : SharesTokens(c.num_heads),
      picture_(c, o),
      text_(c, o),
      picture_norm3_(c.width, Config::kNormEps, o),
      self_norm_(c.width, Config::kNormEps, o),
      joint_(c, o),
      self_(heads_of(c), o) {
  own("img_instruct_attn", joint_);
  own("img_self_attn", self_);
  own_stream("img_", picture_);
  own("img_norm3.norm", picture_norm3_);
  own("img_self_attn_norm", self_norm_);
  own_stream("instruct_", text_);
}

void DoubleBlock::own_stream(const std::string& name, StreamLayers& layers) {
  own(name + "feed_forward", layers.feed_forward);
  own(name + "norm1.norm", layers.norm1);
  own(name + "norm2.norm", layers.norm2);
  own(name + "ffn_norm1", layers.ffn_norm1);
  own(name + "attn_norm", layers.attn_norm);
  own(name + "ffn_norm2", layers.ffn_norm2);
}

/// Computes what the picture's tokens take of each other. Where tokens are shared out, those of the text travel with them as nothing, since
/// places have shares of all tokens, and attention is over the picture's alone.
at::Tensor DoubleBlock::attended_by_itself(const at::Tensor& picture, const nn::Tensors& m, const nn::Tensors& in) const {
  auto heads = nn::recomputed({picture_norm3_.weight, picture, m[6]}, scaled_norm_by(picture_norm3_.eps(), true),
                              [&](const nn::Tensors& normed) { return self_.project(normed[0]); });
  const auto &cos = in[3], &sin = in[4];
  const auto num_text = in[1].size(1), num_picture = picture.size(1);
  if (shares() == nullptr)
    return self_.attend(heads, cos.narrow(-2, num_text, num_picture), sin.narrow(-2, num_text, num_picture), at::Tensor());
  for (auto& tokens : heads) tokens = behind_nothing(tokens, num_text);
  const auto& places_I = in[5];
  auto among_pictures = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const auto of = [&](const at::Tensor& x) { return x.index_select(2, places_I); };
    return at::zeros_like(q).index_copy(2, places_I, nn::attention(of(q), of(k), of(v)));
  };
  return self_.attend(heads, cos, sin, among_pictures).narrow(1, num_text, num_picture).contiguous();
}

at::Tensor DoubleBlock::with_mlp(const StreamLayers& layers, const at::Tensor& before, const at::Tensor& x, const nn::Tensors& m,
                                 size_t first) {
  auto moved = nn::recomputed({before, layers.norm2.weight, m[first + 4], m[first + 2], m[first + 5], layers.ffn_norm1.weight},
                              mlp_input_by(layers.norm2.eps()),
                              [&](const nn::Tensors& normed) { return nn::Tensors{layers.feed_forward.forward(normed[0])}; });
  return with_normed(x, moved[0], layers.ffn_norm2, m[first + 3]);
}

nn::Tensors DoubleBlock::body(const nn::Tensors& in) {
  constexpr size_t kOfText = 8;  // the text's first modulation
  const auto &picture = in[0], &text = in[1];
  const auto m = in[2].chunk(kNumModulations, -1);
  const size_t num_fixed = shares() == nullptr ? 5 : 6;
  const auto bias = in.size() > num_fixed ? in[num_fixed] : at::Tensor();
  auto projected = [&](JointAttention::Stream stream, const at::Tensor& x, const nn::RMSNorm& norm, const at::Tensor& scale) {
    return nn::recomputed({norm.weight, x, scale}, scaled_norm_by(norm.eps(), true),
                          [&](const nn::Tensors& normed) { return joint_.project(stream, normed[0]); });
  };
  const auto joint = joint_.attend(projected(JointAttention::Stream::text, text, text_.norm1, m[kOfText]),
                                   projected(JointAttention::Stream::picture, picture, picture_.norm1, m[0]), in[3], in[4], bias);
  const auto by_itself = attended_by_itself(picture, m, in);
  auto new_picture = with_normed(picture, joint[1], picture_.attn_norm, m[1]);
  new_picture = with_normed(new_picture, by_itself, self_norm_, m[7]);
  const auto new_text = with_normed(text, joint[0], text_.attn_norm, m[kOfText + 1]);
  return {with_mlp(picture_, picture, new_picture, m, 0), with_mlp(text_, text, new_text, m, kOfText)};
}

}  // namespace burnish::models::boogu
