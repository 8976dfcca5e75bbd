#pragma once
#include "models/text/qwen_config.h"
#include "nn/layers.h"
#include "nn/linear.h"

// Gated linear attention (Yang et al. 2024, arXiv 2412.06464). Shape letters: B texts, L tokens, E width, H heads of values, G heads of
// keys and queries, of which each serves H / G heads of values behind each other, K numbers of a key, V numbers of a value.
namespace burnish::models::text {

/// The numbers that the gated delta rule reads of every token.
struct DeltaTokens {
  at::Tensor query_BLGK, key_BLGK, value_BLHV;
  at::Tensor log_decay_BLH;  ///< fp32, at most 0: by how much the state fades before the token
  at::Tensor beta_BLH;       ///< fp32, 0 to 1: how far what the state has at the key goes over to the value
};

/// Computes o = qᵀ S / √K of a state S [K, V] of every head, which begins as zeros and becomes e^decay S + k (β (v − kᵀ e^decay S))ᵀ at
/// every token; queries and keys are brought to the length 1. -> [B, L, H, V], fp32. It goes by chunks of 64 tokens, within which the
/// tokens' changes of the state are solved for as one triangular system (§3.3 of the article), so that an operator is of a chunk and not of
/// a token.
at::Tensor gated_delta_rule(const DeltaTokens& tokens);

/// Projections, a causal convolution over each of their numbers and the gated delta rule in place of attention; its result has an RMS norm
/// of every head and is gated by SiLU. [B, L, E] -> [B, L, E]. Its layers are those of transformers' Qwen3_5GatedDeltaNet. What stands
/// behind a text changes nothing of it, what stands before it does.
class GatedDelta : public nn::Module {
 public:
  GatedDelta(const GatedLayers& config, int64_t width, double eps, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x_BLE) const;

 private:
  at::Tensor convolved(const at::Tensor& x_BLC) const;

  GatedLayers config_;
  nn::Linear qkv_, z_, b_, a_, out_;
  at::Tensor conv_weight_;  ///< [C, 1, kernel], C numbers of query, key and value
  at::Tensor a_log_, dt_bias_;
  nn::RMSNorm norm_;
};

}  // namespace burnish::models::text
