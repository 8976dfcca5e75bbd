#pragma once
#include <map>
#include <memory>
#include <vector>

#include "models/families/ltx2/autoencoder_config.h"
#include "nn/linear.h"

// Layers of the autoencoder of frames, over clips x [B, C, F, H, W] that may come in chunks. What they give is that of the whole clip,
// bit for bit but for rounding: a layer keeps the frames that it will see again. Layers that see frames behind their own give fewer of a
// chunk, none of a short one, and those that are left of the last.
namespace burnish::models::ltx2 {

/// Keeps for layers the frames of a clip while it goes through them; there is one for each clip.
class Passage {
 public:
  /// Begins a chunk.
  void begin_chunk(bool is_last) { is_last_ = is_last; }
  bool is_last() const { return is_last_; }
  /// Returns what a layer keeps; undefined at first. `number` tells several of one layer apart.
  at::Tensor& kept(const nn::Module& layer, int number = 0) { return frames_[{&layer, number}]; }
  /// Returns the next `count` frames of those that came here, x being the newest, and keeps the others.
  at::Tensor delayed(const nn::Module& layer, const at::Tensor& x, int64_t count);

 private:
  std::map<std::pair<const nn::Module*, int>, at::Tensor> frames_;
  bool is_last_ = true;
};

/// A convolution of 3 × 3 × 3 places. Before a clip its first frame stands twice, where it is causal, or once and the last behind it.
class FrameConv : public nn::Module {
 public:
  FrameConv(int64_t in, int64_t out, const HalfConfig& half, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Passage& passage) const;

 private:
  bool is_causal_;
  Edges edges_;
  nn::Conv conv_;
};

/// x / √(mean of x² over the channels of a place + 1e-8), and SiLU of it.
at::Tensor normed_silu(const at::Tensor& x);

/// Two convolutions, each behind a norm, added to what they see.
class FrameResnet : public nn::Module {
 public:
  FrameResnet(int64_t channels, const HalfConfig& half, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Passage& passage) const;

 private:
  FrameConv conv1_, conv2_;
};

/// Some of these, one behind the other.
class FrameResnets : public nn::Module {
 public:
  FrameResnets(int64_t count, int64_t channels, const HalfConfig& half, const at::TensorOptions& options);
  at::Tensor forward(at::Tensor x, Passage& passage) const;

 private:
  std::vector<std::unique_ptr<FrameResnet>> resnets_;
};

/// A step down: places become channels, of what a convolution makes, and of what it sees, of which the means of groups are added. The first
/// frame of a clip stands before it once more where frames are joined.
class StepDown : public nn::Module {
 public:
  StepDown(int64_t in, int64_t out, const Step& step, const HalfConfig& half, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Passage& passage) const;

 private:
  Step step_;
  int64_t out_;
  FrameConv conv_;
};

/// A step up: channels become places, of what a convolution makes, and of what it sees, repeated, where that is added. Of a clip's first
/// frames that stand for one, the last is kept.
class StepUp : public nn::Module {
 public:
  StepUp(int64_t in, const Level& level, const HalfConfig& half, const at::TensorOptions& options);
  at::Tensor forward(const at::Tensor& x, Passage& passage) const;

 private:
  Level level_;
  FrameConv conv_;
};

}  // namespace burnish::models::ltx2
