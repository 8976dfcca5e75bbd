#pragma once
#include <functional>
#include <map>

#include "nn/linear.h"

// Layers of causal autoencoders, over clips x [B, C, F, H, W]; a picture is a clip of one frame.
namespace burnish::models::vae {

/// Keeps for the layers of a causal network a clip's earlier frames while it goes through them in chunks; there is one for each clip. The
/// first chunk is the first frame alone.
class Past {
 public:
  /// Begins a chunk. The last chunk leaves nothing for others.
  void begin_chunk(bool is_last);
  bool is_first() const { return num_chunks_ == 1; }
  /// Returns the `count` frames that `layer` was given before x, and x: zeros where it was given fewer. A single frame that is the layer's
  /// first stays alone, for kernels that are `causal`.
  at::Tensor joined(const nn::Module& layer, const at::Tensor& x, int64_t count);

 private:
  std::map<const nn::Module*, at::Tensor> frames_;
  int64_t num_chunks_ = 0;
  bool is_last_ = false;
};

/// Runs `part`, which takes pictures [B, C, H, W], on each frame.
at::Tensor by_frame(const at::Tensor& x, const std::function<at::Tensor(const at::Tensor& pictures)>& part);

/// A convolution with as many places out as in. In time it sees the frames before: its kernels are as long as they are wide, or, for
/// pictures alone, have no length in time.
class CausalConv : public nn::Conv {
 public:
  CausalConv(int64_t in_channels, int64_t out_channels, int64_t kernel, bool in_time, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Past& past) const;

 private:
  int64_t num_before_;  ///< frames that a kernel sees before its own
  bool in_time_;
};

/// Divides the channels of every place by their norm, and multiplies them with the square root of their number and gamma.
class ChannelNorm : public nn::Module {
 public:
  /// Files give gamma as many empty dimensions as there are behind the channels: in clips three, in pictures two.
  ChannelNorm(int64_t channels, bool of_clips, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor forward_silu(const at::Tensor& x) const;

 private:
  at::Tensor gamma_;
};

class CausalResnet : public nn::Module {
 public:
  CausalResnet(int64_t in, int64_t out, bool in_time, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Past& past) const;

 private:
  ChannelNorm norm1_, norm2_;
  CausalConv conv1_, conv2_;
  std::unique_ptr<CausalConv> shortcut_;
};

/// Runs self-attention over all places of a frame with one head, between two residual blocks.
class CausalMiddle : public nn::Module {
 public:
  CausalMiddle(int64_t channels, bool in_time, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Past& past) const;

 private:
  CausalResnet first_, second_;
  ChannelNorm norm_;
  nn::Conv2d qkv_, proj_;
};

/// Steps down to a level of half the height and width, and with `halves_frames` half the frames, of which the clip's first stays alone.
class StepDown : public nn::Module {
 public:
  StepDown(int64_t channels, bool halves_frames, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Past& past) const;

 private:
  nn::Conv2d conv_;
  std::unique_ptr<nn::Conv> time_;
};

/// Steps up from `in` channels to `out`. The clip's first frame stays alone, and those behind it do not see it.
class StepUp : public nn::Module {
 public:
  StepUp(int64_t in, int64_t out, bool doubles_frames, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Past& past) const;

 private:
  nn::Conv2d conv_;
  std::unique_ptr<nn::Conv> time_;
};

/// Averages x to 1 / `in_time` of its frames (behind a zero, where they do not divide) and 1 / `in_space` of height and width, without
/// weights: places that become one give their channels to it, and means of neighbouring channels make `channels` of them.
at::Tensor averaged(const at::Tensor& x, int64_t channels, int64_t in_time, int64_t in_space);

/// Goes back from that shape: channels are repeated and become `in_time` frames and `in_space` rows and columns of `channels`. A clip's
/// first frame stays alone.
at::Tensor repeated(const at::Tensor& x, int64_t channels, int64_t in_time, int64_t in_space, const Past& past);

}  // namespace burnish::models::vae
