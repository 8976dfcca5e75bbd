#include "models/families/stable_diffusion/unet_blocks.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "kernels/geglu/geglu.h"
#include "nn/attention.h"
#include "nn/recomputed_values.h"

namespace burnish::models::stable_diffusion {

namespace {
constexpr double kLayerNormEps = 1e-5;
constexpr double kTransformerNormEps = 1e-6;
}  // namespace

ResnetBlock::ResnetBlock(const Config& c, int64_t in, int64_t out, const at::TensorOptions& options)
    : norm1_(c.num_groups, in, c.norm_eps, options),
      norm2_(c.num_groups, out, c.norm_eps, options),
      conv1_(in, out, 3, 1, 1, options),
      conv2_(out, out, 3, 1, 1, options),
      time_emb_proj_(time_width(c), out, options) {
  own("norm1", norm1_);
  own("conv1", conv1_);
  own("time_emb_proj", time_emb_proj_);
  own("norm2", norm2_);
  own("conv2", conv2_);
  if (in != out) {
    conv_shortcut_ = std::make_unique<nn::Conv2d>(in, out, 1, 1, 0, options);
    own("conv_shortcut", *conv_shortcut_);
  }
}

nn::Tensors ResnetBlock::body(const nn::Tensors& in) {
  auto x = in.size() == 3 ? at::cat({in[0], in[1]}, 1) : in[0];
  auto time = time_emb_proj_.forward(in.back()).unsqueeze(-1).unsqueeze(-1);
  auto y = norm1_.silu_before([&](const at::Tensor& activated) { return conv1_.forward(activated); }, x) + time;
  y = norm2_.silu_before([&](const at::Tensor& activated) { return conv2_.forward(activated); }, y);
  return {(conv_shortcut_ ? conv_shortcut_->forward(x) : x) + y};
}

Attention::Attention(int64_t width, int64_t context, int64_t num_heads, const at::TensorOptions& options)
    : num_heads_(num_heads),
      to_q_(width, width, options, /*with_bias=*/false),
      to_k_(context, width, options, /*with_bias=*/false),
      to_v_(context, width, options, /*with_bias=*/false),
      to_out_(width, width, options) {
  own("to_q", to_q_);
  own("to_k", to_k_);
  own("to_v", to_v_);
  own("to_out.0", to_out_);
}

at::Tensor Attention::forward(const at::Tensor& x_BLD, const at::Tensor& context_BTE) const {
  nn::Tensors qkv;
  if (context_BTE.is_same(x_BLD)) {
    qkv = nn::forward_all({&to_q_, &to_k_, &to_v_}, x_BLD);
  } else {
    qkv = nn::forward_all({&to_k_, &to_v_}, context_BTE);
    qkv.insert(qkv.begin(), to_q_.forward(x_BLD));
  }
  for (auto& heads : qkv) heads = nn::split_heads(heads, num_heads_);
  return to_out_.forward(nn::merge_heads(nn::attention(qkv[0], qkv[1], qkv[2])));
}

TransformerBlock::TransformerBlock(const Config& c, int64_t width, int64_t num_heads, const at::TensorOptions& options)
    : norm1_(width, kLayerNormEps, options),
      norm2_(width, kLayerNormEps, options),
      norm3_(width, kLayerNormEps, options),
      attn1_(width, width, num_heads, options),
      attn2_(width, c.cross_attention_dim, num_heads, options),
      ff_in_(width, 8 * width, options),
      ff_out_(4 * width, width, options) {
  own("norm1", norm1_);
  own("attn1", attn1_);
  own("norm2", norm2_);
  own("attn2", attn2_);
  own("norm3", norm3_);
  own("ff.net.0.proj", ff_in_);
  own("ff.net.2", ff_out_);
}

nn::Tensors TransformerBlock::body(const nn::Tensors& in) {
  const auto &tokens = in[0], &text = in[1];
  auto x = tokens + norm1_.before([&](const at::Tensor& normed) { return attn1_.forward(normed, normed); }, tokens);
  x = x + norm2_.before([&](const at::Tensor& normed) { return attn2_.forward(normed, text); }, x);
  auto hidden = norm3_.before([&](const at::Tensor& normed) { return ff_in_.forward(normed); }, x);
  auto y = nn::recomputed(
      {hidden}, [](const nn::Tensors& in) { return kernels::geglu(in[0]); },
      [&](const at::Tensor& gated) { return ff_out_.forward(gated); });
  return {x + y};
}

SpatialTransformer::SpatialTransformer(const Config& c, int64_t channels, int64_t num_heads, int64_t depth,
                                       const at::TensorOptions& options)
    : norm_(c.num_groups, channels, kTransformerNormEps, options),
      proj_in_(make_projection("proj_in", c.use_linear_projection, channels, options)),
      proj_out_(make_projection("proj_out", c.use_linear_projection, channels, options)) {
  own("norm", norm_);
  for (int64_t i = 0; i < depth; ++i) {
    blocks_.push_back(std::make_unique<TransformerBlock>(c, channels, num_heads, options));
    own("transformer_blocks." + std::to_string(i), *blocks_.back());
  }
}

SpatialTransformer::Projection SpatialTransformer::make_projection(const char* name, bool linear, int64_t channels,
                                                                   const at::TensorOptions& options) {
  Projection p;
  if (linear) {
    p.linear = std::make_unique<nn::Linear>(channels, channels, options);
    own(name, *p.linear);
  } else {
    p.conv = std::make_unique<nn::Conv2d>(channels, channels, 1, 1, 0, options);
    own(name, *p.conv);
  }
  return p;
}

at::Tensor SpatialTransformer::forward(const at::Tensor& x_BCHW, const at::Tensor& text_BTE) {
  auto x = norm_.forward(x_BCHW);
  if (proj_in_.conv) x = proj_in_.conv->forward(x);
  auto tokens_BLC = x.flatten(2).transpose(1, 2).contiguous();
  if (proj_in_.linear) tokens_BLC = proj_in_.linear->forward(tokens_BLC);
  for (auto& block : blocks_) tokens_BLC = block->run({tokens_BLC, text_BTE})[0];
  if (proj_out_.linear) tokens_BLC = proj_out_.linear->forward(tokens_BLC);
  auto y = tokens_BLC.transpose(1, 2).reshape(x_BCHW.sizes());
  return x_BCHW + (proj_out_.conv ? proj_out_.conv->forward(y) : y);
}

void SpatialTransformer::list_blocks(std::vector<nn::Block*>& all) {
  for (auto& block : blocks_) all.push_back(block.get());
}

}  // namespace burnish::models::stable_diffusion
