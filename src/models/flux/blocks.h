#pragma once
#include "models/flux/config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::flux {

/// linear, tanh-GELU, linear; named net.0.proj and net.2 as in diffusers.
class FeedForward : public nn::Module {
 public:
  FeedForward(int64_t width, int64_t hidden, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Linear up_, down_;
};

/// Query, key and value of one token stream, with the RMS norm of query and key per head.
class StreamQkv : public nn::Module {
 public:
  struct Names {
    const char *q, *k, *v, *norm_q, *norm_k;
  };
  StreamQkv(const Config& c, const at::TensorOptions& options, const Names& names);

  /// x [B, L, D] -> {query, key, value [B, L, heads, D/heads]}.
  nn::Tensors project(const at::Tensor& x_BLD) const;
  /// Of the norms of query and key.
  nn::Tensors norm_weights() const { return {norm_q_.weight, norm_k_.weight}; }

 private:
  int64_t num_heads_;
  nn::Linear q_, k_, v_;
  nn::RMSNorm norm_q_, norm_k_;
};

/// Joint attention over separate image and text streams. Inputs and outputs of `body`:
/// {image [B,I,D], text [B,T,D], modulation of image and text [B,12D], cos, sin [T+I,P]} -> {image, text}.
class DoubleBlock : public nn::Block {
 public:
  DoubleBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  StreamQkv image_qkv_, text_qkv_;
  nn::Linear to_out_, to_add_out_;
  FeedForward ff_, ff_context_;
};

/// Attention and MLP side by side over text and image tokens in one stream.
/// {tokens [B,L,D], modulation [B,3D], cos, sin [L,P]} -> {tokens}.
class SingleBlock : public nn::Block {
 public:
  SingleBlock(const Config& c, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;

 private:
  StreamQkv qkv_;
  nn::Linear proj_mlp_, proj_out_;
};

}  // namespace burnish::models::flux
