#include "models/families/wan/talk.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/relu.h>

#include "models/families/wan/frame_tokens.h"
#include "nn/attention.h"

namespace burnish::models::wan {

namespace {

constexpr double kSaidEps = 1e-5;
/// Frames of a clip that a frame of the latents but the first stands for.
constexpr int64_t kFramesEach = 4;

}  // namespace

SaidInFrames::SaidInFrames(const TalkConfig& c, const at::TensorOptions& o)
    : config_(c),
      of_first_(c.window * c.sound_width, c.hidden, o),
      of_others_((c.window + kFramesEach - 1) * c.sound_width, c.hidden, o),
      second_(c.hidden, c.hidden, o),
      third_(c.hidden, c.num_tokens * c.token_width, o),
      norm_(c.token_width, kSaidEps, o) {
  own("proj1", of_first_);
  own("proj1_vf", of_others_);
  own("proj2", second_);
  own("proj3", third_);
  own("norm", norm_);
}

// The authors take of the first of four frames those before it, of the last those behind it, and of all four themselves: all of a window
// that is three frames longer than a frame's own.
at::Tensor SaidInFrames::forward(const at::Tensor& states) const {
  const auto reach = config_.window / 2, num_frames = states.size(1);
  const auto before = states.narrow(1, 0, 1).expand({-1, reach, -1}), behind = states.narrow(1, num_frames - 1, 1).expand({-1, reach, -1});
  const auto around = at::cat({before, states, behind}, 1);
  auto made = at::relu(of_first_.forward(around.narrow(1, 0, config_.window).flatten(1).unsqueeze(1)));
  if (num_frames > 1) {
    const auto windows =
        around.narrow(1, 1, around.size(1) - 1).unfold(1, config_.window + kFramesEach - 1, kFramesEach);  // [B, f - 1, M, w]
    made = at::cat({made, at::relu(of_others_.forward(windows.transpose(2, 3).flatten(2)))}, 1);
  }
  return norm_.forward(third_.forward(at::relu(second_.forward(made))).unflatten(-1, {config_.num_tokens, -1}));
}

AttentionToSound::AttentionToSound(const Config& c, const at::TensorOptions& o)
    : num_heads_(c.num_heads),
      q_(c.width(), c.width(), o),
      kv_(c.extras.talk.token_width, 2 * c.width(), o),
      out_(c.width(), c.width(), o) {
  own("q_linear", q_);
  own("kv_linear", kv_);
  own("proj", out_);
}

at::Tensor AttentionToSound::forward(const at::Tensor& x, const at::Tensor& sound, int64_t num_tokens) const {
  const auto frames = frames_here(shares(), sound.size(1), num_tokens);
  auto of_sound = kv_.forward(sound.narrow(1, frames.first, frames.count).flatten(0, 1)).chunk(2, -1);
  auto attended = frames.whole(q_.forward(x), [&](const at::Tensor& query) {
    auto apart = query.unflatten(1, {frames.count, -1}).flatten(0, 1);
    auto heads = [&](const at::Tensor& tokens) { return nn::split_heads(tokens, num_heads_); };
    return nn::merge_heads(nn::attention(heads(apart), heads(of_sound[0]), heads(of_sound[1]))).reshape(query.sizes());
  });
  return out_.forward(attended);
}

}  // namespace burnish::models::wan
