#pragma once
#include <functional>
#include <memory>

#include "models/text/gated_delta.h"
#include "models/text/key_values.h"
#include "models/text/qwen_config.h"
#include "nn/block.h"
#include "nn/layers.h"
#include "nn/linear.h"

// The layers of Qwen's decoders. Shape letters: B texts, L tokens, E width, H heads, D numbers of a head, P rotated pairs.
namespace burnish::models::text {

/// An RMS norm that multiplies by its weight, or, of models with gated layers, by 1 + weight in fp32.
class QwenNorm : public nn::RMSNorm {
 public:
  QwenNorm(int64_t dim, const QwenConfig& config, const at::TensorOptions& options)
      : RMSNorm(dim, config.eps, options), adds_one_(config.gated.has_value()) {}
  at::Tensor forward(const at::Tensor& x) const;

 private:
  bool adds_one_;
};

/// Attention with heads of keys and values that several queries share; layers q_proj, k_proj, v_proj, o_proj, q_norm and k_norm. Where the
/// model gates, q_proj makes of every head a query and what a sigmoid gates the head's result by.
class QwenAttention : public nn::Module {
 public:
  QwenAttention(const QwenConfig& config, const at::TensorOptions& options);
  /// `attend` of query, key and value [B, H, L, D], normed and turned, gives what the heads see side by side [B, L, H·D]; cos and sin
  /// [L, P]. -> [B, L, E].
  using Attend = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;
  at::Tensor forward(const at::Tensor& x_BLE, const at::Tensor& cos, const at::Tensor& sin, const Attend& attend) const;

 private:
  at::Tensor heads(const at::Tensor& x_BLHD, const QwenNorm* norm, const at::Tensor& cos, const at::Tensor& sin) const;

  QwenConfig config_;
  nn::Linear q_, k_, v_, o_;
  std::unique_ptr<QwenNorm> q_norm_, k_norm_;
};

/// {tokens [B,L,E], cos, sin [L,P], and where not all that comes before a token is seen the bias of attention [L,L], and which tokens see
/// anything [L,1]} -> {tokens}: causal attention, or gated linear attention, and a gated MLP, each behind an RMS norm.
class QwenLayer : public nn::Block {
 public:
  /// `number` of the layer, from 0 on, decides which attention it has.
  QwenLayer(const QwenConfig& config, int64_t number, const at::TensorOptions& options);
  nn::Tensors body(const nn::Tensors& inputs) override;
  /// {tokens, cos, sin, and the bias of attention [B,1,1,L] or an undefined one} -> tokens, which are added to the past of this layer.
  at::Tensor after(KeyValues& past, size_t layer, const nn::Tensors& inputs);

 private:
  at::Tensor forward(const nn::Tensors& in, const QwenAttention::Attend& attend) const;
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias) const;

  QwenConfig config_;
  QwenNorm input_norm_, post_norm_;
  std::unique_ptr<QwenAttention> attention_;  ///< one of the two
  std::unique_ptr<GatedDelta> delta_;
  nn::Linear gate_, up_, down_;
};

}  // namespace burnish::models::text
