#pragma once
#include "models/text/rotate_halves.h"
#include "nn/attention.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

namespace burnish::models::text {

// Shape letters: N patches, D width, P rotated pairs, H heads, d their width.

/// A layer of a Qwen vision tower: attention that turns queries and keys by where patches are, then what its kind makes of each patch by
/// itself, each behind a norm and added to what was there. Names are transformers'.
template <class Norm>
class VisionLayer : public nn::Block {
 public:
  VisionLayer(int64_t width, int64_t num_heads, const at::TensorOptions& options)
      : num_heads_(num_heads),
        norm1_(width, kEps, options),
        norm2_(width, kEps, options),
        qkv_(width, 3 * width, options),
        proj_(width, width, options) {
    own("norm1", norm1_);
    own("norm2", norm2_);
    own("attn.qkv", qkv_);
    own("attn.proj", proj_);
  }

  /// {patches [1,N,D], cos, sin [N,P], and what `attend` reads beside them} -> {patches}.
  nn::Tensors body(const nn::Tensors& in) override {
    auto qkv = qkv_.forward(norm1_.forward(in[0])).chunk(3, -1);
    // The angles grow with the picture's sides: they are turned by in fp32.
    auto rotated = [&](const at::Tensor& x_1ND) {
      return rotate_halves(nn::split_heads(x_1ND, num_heads_).to(at::kFloat), in[1], in[2]).to(x_1ND.scalar_type());
    };
    auto attended = attend(rotated(qkv[0]), rotated(qkv[1]), nn::split_heads(qkv[2], num_heads_), in);
    auto mid = in[0] + proj_.forward(nn::merge_heads(attended));
    return {mid + feed_forward(norm2_.forward(mid))};
  }

 protected:
  /// Makes [1,H,N,d] of queries, keys and values of that shape.
  virtual at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const nn::Tensors& /*in*/) const {
    return nn::attention(q, k, v);
  }
  virtual at::Tensor feed_forward(const at::Tensor& normed_1ND) = 0;

 private:
  static constexpr double kEps = 1e-6;
  int64_t num_heads_;
  Norm norm1_, norm2_;
  nn::Linear qkv_, proj_;
};

}  // namespace burnish::models::text
