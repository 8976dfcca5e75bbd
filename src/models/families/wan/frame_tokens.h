#pragma once
#include <functional>
#include <memory>

#include "nn/layers.h"
#include "nn/token_shares.h"

namespace burnish::models::wan {

/// Makes of what each frame of a clip has, such as the motion of a face or a sound, tokens for each frame of the latents: convolutions over
/// time of three frames, in which a frame sees those before it alone, each behind a norm and SiLU; the last two halve the frames (names of
/// Wan's own MotionEncoder_tc). Shape letters as in blocks.h; F frames of the clip, f of the latents, M numbers of a frame, N tokens.
class FrameTokens : public nn::Module {
 public:
  struct Sizes {
    int64_t in;                    ///< M
    int64_t first, second, third;  ///< channels behind each convolution, of a token
    int64_t num_tokens;            ///< tokens that are made of a frame, before the one that is learned
    int64_t projected = 0;         ///< width of what a layer makes of the third; 0: there is none
    bool has_whole = false;        ///< whether one more vector is made of each frame
    int64_t width() const { return projected > 0 ? projected : third; }
  };
  struct Made {
    at::Tensor tokens_BFND;  ///< [B, f, N + 1, D]
    at::Tensor whole_BFD;    ///< [B, f, D]; undefined without has_whole
  };
  FrameTokens(const Sizes& sizes, const at::TensorOptions& options);
  /// Takes [B, F, M]. f is the whole of (F + 3) / 4.
  Made forward(const at::Tensor& x_BFM) const;

 private:
  at::Tensor halved(const at::Tensor& x_BCF) const;

  Sizes sizes_;
  nn::Conv apart_, second_, third_;
  std::unique_ptr<nn::Linear> out_;
  std::unique_ptr<nn::Conv> together_;
  std::unique_ptr<nn::Linear> whole_;
  at::Tensor learned_;  ///< [1, 1, 1, D]
};

/// The frames of which tokens are in this place, where tokens are shared out, and how many tokens of the first and of the last of them are
/// not. Tokens attend to what their own frame has, which needs frames that are whole.
struct FramesHere {
  int64_t first = 0, count = 0;
  int64_t before = 0, behind = 0;

  /// Computes `of_frames` of the tokens [B, l, D] that are here, of frames filled up with zeros, and takes what it makes of these tokens.
  at::Tensor whole(const at::Tensor& tokens_BlD, const std::function<at::Tensor(const at::Tensor& tokens)>& of_frames) const;
};
/// Finds them for frames that have so many tokens, together with those of `num_given` frames, which are shared out by themselves
/// (nn::Streams, of which the frames are the last run).
FramesHere frames_here(const nn::TokenShares* shares, int64_t num_frames, int64_t num_tokens, int64_t num_given = 0);

}  // namespace burnish::models::wan
