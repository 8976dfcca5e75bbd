#include "models/families/sd3/blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/zeros_like.h>

#include "kernels/gated_residual/gated_residual.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::sd3 {

namespace {

/// Makes query, key and value of modulated tokens, and behind them the weights of the norms of query and key.
nn::Tensors projected(const mmdit::StreamQkv& qkv, const at::Tensor& tokens, const at::Tensor& scale, const at::Tensor& shift) {
  auto all = nn::recomputed({tokens, scale, shift}, mmdit::normed_by, [&](const nn::Tensors& normed) { return qkv.project(normed[0]); });
  for (const auto& weight : qkv.norm_weights()) all.push_back(weight);
  return all;
}

/// {query, key, value, weights of norms, still} of one stream -> {query, key [B,H,L,P]}, ready for attention.
nn::Tensors heads_of(const nn::Tensors& in) {
  const auto still = in[5].narrow(0, 0, in[0].size(1));
  return mmdit::heads_of({in[0], in[1], in[3], in[4], still, at::zeros_like(still)});
}

at::Tensor with_mlp(const mmdit::FeedForward& mlp, const at::Tensor& tokens, const nn::Tensors& m) {
  auto y = nn::recomputed({tokens, m[4], m[3]}, mmdit::normed_by,
                          [&](const nn::Tensors& normed) { return nn::Tensors{mlp.forward(normed[0])}; });
  return kernels::gated_residual(tokens, m[5], y[0]);
}

}  // namespace

JointBlock::Dual::Dual(const mmdit::Widths& c, const at::TensorOptions& o)
    : qkv(c, o, mmdit::StreamQkv::kImage), out(c.width(), c.width(), o) {}

JointBlock::TextEnd::TextEnd(const mmdit::Widths& c, const at::TensorOptions& o) : out(c.width(), c.width(), o), mlp(c, o) {}

JointBlock::JointBlock(const mmdit::Widths& c, const Kind& kind, const at::TensorOptions& o)
    : SharesTokens(c.num_heads),
      image_qkv_(c, o, mmdit::StreamQkv::kImage),
      text_qkv_(c, o, mmdit::StreamQkv::kText),
      to_out_(c.width(), c.width(), o),
      image_mlp_(c, o) {
  own("attn", image_qkv_);
  own("attn", text_qkv_);
  own("attn.to_out.0", to_out_);
  own("ff", image_mlp_);
  if (kind.is_dual) {
    dual_.emplace(c, o);
    own("attn2", dual_->qkv);
    own("attn2.to_out.0", dual_->out);
  }
  if (kind.ends_text) return;
  text_end_.emplace(c, o);
  own("attn.to_add_out", text_end_->out);
  own("ff_context", text_end_->mlp);
}

at::Tensor JointBlock::attend_jointly(const nn::Tensors& of_text, const nn::Tensors& of_image, const at::Tensor& still_LP) const {
  auto in = of_text;
  in.insert(in.end(), of_image.begin(), of_image.end());
  in.insert(in.end(), {still_LP, at::zeros_like(still_LP)});
  return nn::recomputed(in, mmdit::joint_heads,
                        [&](const nn::Tensors& qkv) { return nn::Tensors{attention_of(qkv[0], qkv[1], qkv[2], {}, still_LP.size(0))}; })[0];
}

/// Tokens that are shared out are exchanged as all of them lie, so the text's stand beside the image's there, and none of them is read.
at::Tensor JointBlock::attend_to_image(const nn::Tensors& of_image, int64_t num_text, const at::Tensor& still_LP,
                                       const at::Tensor& bias) const {
  auto in = of_image;
  in.push_back(still_LP);
  const auto num_before = bias.defined() ? num_text : 0;
  auto behind_text = [num_before](const at::Tensor& x_BHLP) {
    return num_before == 0 ? x_BHLP : at::constant_pad_nd(x_BHLP, {0, 0, num_before, 0});
  };
  auto attended = nn::recomputed(in, heads_of, [&](const nn::Tensors& heads) {
    auto value = of_image[2].transpose(1, 2);
    return nn::Tensors{attention_of(behind_text(heads[0]), behind_text(heads[1]), behind_text(value), bias, still_LP.size(0))};
  })[0];
  return num_before == 0 ? attended : attended.narrow(2, num_before, attended.size(2) - num_before);
}

nn::Tensors JointBlock::body(const nn::Tensors& in) {
  auto image = in[0], text = in[1];
  const auto still = in[3], bias = in.size() > 4 ? in[4] : at::Tensor();
  const int64_t num_text = text.size(1), num_image = image.size(1), num_of_image = dual_ ? 9 : 6;
  // The parts of a stream are shift, scale, gate of attention; shift, scale, gate of the MLP; shift, scale, gate of the second attention.
  // Those of a text that ends are scale and shift.
  const auto all = in[2].chunk(num_of_image + (text_end_ ? 6 : 2), -1);
  const nn::Tensors m(all.begin(), all.begin() + num_of_image), t(all.begin() + num_of_image, all.end());
  const auto joint = nn::merge_heads(attend_jointly(projected(text_qkv_, text, t[text_end_ ? 1 : 0], t[text_end_ ? 0 : 1]),
                                                    projected(image_qkv_, image, m[1], m[0]), still));
  const auto alone =
      dual_ ? nn::merge_heads(attend_to_image(projected(dual_->qkv, image, m[7], m[6]), num_text, still, bias)) : at::Tensor();
  image = kernels::gated_residual(image, m[2], to_out_.forward(joint.narrow(1, num_text, num_image)));
  if (dual_) image = kernels::gated_residual(image, m[8], dual_->out.forward(alone));
  image = with_mlp(image_mlp_, image, m);
  if (!text_end_) return {image};
  text = kernels::gated_residual(text, t[2], text_end_->out.forward(joint.narrow(1, 0, num_text)));
  return {image, with_mlp(text_end_->mlp, text, t)};
}

}  // namespace burnish::models::sd3
