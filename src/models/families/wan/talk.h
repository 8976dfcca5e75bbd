#pragma once
#include "models/families/wan/config.h"
#include "nn/layers.h"
#include "nn/linear.h"
#include "nn/token_shares.h"

// InfiniteTalk and MultiTalk (arXiv 2508.14033, 2505.22647) have a transformer of picture to video, each of whose blocks also attends from
// the tokens of a frame to what is said in it. Names of parameters are those of the published files. Shape letters as in
// blocks.h; F frames of the clip, f of the latents, M numbers of a frame's sound, N tokens that it becomes, W their width.
namespace burnish::models::wan {

/// Makes of what is heard in each frame of a clip tokens for each frame of the latents: of the frames around those that it stands for.
class SaidInFrames : public nn::Module {
 public:
  SaidInFrames(const TalkConfig& config, const at::TensorOptions& options);
  /// Takes [B, F, M], F = 4 k + 1 -> [B, f, N, W].
  at::Tensor forward(const at::Tensor& states_BFM) const;

 private:
  TalkConfig config_;
  nn::Linear of_first_, of_others_, second_, third_;
  nn::LayerNorm norm_;
};

/// Attention of the tokens of each frame to those of its sound alone.
class AttentionToSound : public nn::Module, public nn::SharesTokens {
 public:
  AttentionToSound(const Config& dit, const at::TensorOptions& options);
  /// Takes normed tokens of this place [B, l, D] of `num_tokens` in all, and the sound of all frames [B, f, N, W].
  at::Tensor forward(const at::Tensor& x_BlD, const at::Tensor& sound_BFNW, int64_t num_tokens) const;

 private:
  int64_t num_heads_;
  nn::Linear q_, kv_, out_;
};

}  // namespace burnish::models::wan
