#include "models/families/ltx2/frame_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/reflection_pad3d.h>
#include <ATen/ops/replication_pad3d.h>
#include <ATen/ops/silu.h>

#include <string>

namespace burnish::models::ltx2 {

namespace {

constexpr int64_t kFrameDim = 2, kSeen = 3;
constexpr double kNormEps = 1e-8;

at::Tensor frames_of(const at::Tensor& x, int64_t first, int64_t count) { return x.narrow(kFrameDim, first, count); }

kernels::Window window_of(Edges edges) {
  const int64_t beside = edges == Edges::zeros ? 1 : 0;
  return {.kernel = {kSeen, kSeen, kSeen}, .stride = {1, 1, 1}, .padding = {0, beside, beside}, .dilation = {1, 1, 1}};
}

/// Frames with a row and a column more on every side, mirrored; a single one is its own mirror.
at::Tensor mirrored(const at::Tensor& x) {
  if (x.size(3) > 1 && x.size(4) > 1) return at::reflection_pad3d(x, {1, 1, 1, 1, 0, 0});
  const auto wide = x.size(4) > 1 ? at::reflection_pad3d(x, {1, 1, 0, 0, 0, 0}) : at::replication_pad3d(x, {1, 1, 0, 0, 0, 0});
  return x.size(3) > 1 ? at::reflection_pad3d(wide, {0, 0, 1, 1, 0, 0}) : at::replication_pad3d(wide, {0, 0, 1, 1, 0, 0});
}

/// Places in time, rows and columns that become channels behind the channel that they are of.
at::Tensor to_channels(const at::Tensor& x, const Step& step) {
  return x.unflatten(4, {-1, step.in_space})
      .unflatten(3, {-1, step.in_space})
      .unflatten(2, {-1, step.in_time})
      .permute({0, 1, 3, 5, 7, 2, 4, 6})
      .flatten(1, 4);
}

/// The way back.
at::Tensor to_places(const at::Tensor& x, const Step& step) {
  return x.unflatten(1, {-1, step.in_time, step.in_space, step.in_space})
      .permute({0, 1, 5, 2, 6, 3, 7, 4})
      .flatten(6, 7)
      .flatten(4, 5)
      .flatten(2, 3);
}

}  // namespace

at::Tensor Passage::delayed(const nn::Module& layer, const at::Tensor& x, int64_t count) {
  auto& waiting = kept(layer);
  const auto all = waiting.defined() && waiting.size(kFrameDim) > 0 ? at::cat({waiting, x}, kFrameDim) : x;
  // A copy, since a view would keep all frames.
  waiting = is_last_ ? at::Tensor() : frames_of(all, count, all.size(kFrameDim) - count).clone();
  return frames_of(all, 0, count);
}

FrameConv::FrameConv(int64_t in, int64_t out, const HalfConfig& half, const at::TensorOptions& o)
    : is_causal_(half.is_causal), edges_(half.edges), conv_(in, out, window_of(half.edges), o) {
  own("conv", conv_);
}

at::Tensor FrameConv::forward(const at::Tensor& x, Passage& passage) const {
  auto& before = passage.kept(*this);
  std::vector<at::Tensor> parts{x};
  if (before.defined()) parts.insert(parts.begin(), before);
  else if (x.size(kFrameDim) > 0) parts.insert(parts.begin(), is_causal_ ? kSeen - 1 : kSeen / 2, frames_of(x, 0, 1));
  if (passage.is_last() && !is_causal_) {
    const auto& newest = x.size(kFrameDim) > 0 ? x : parts.front();
    parts.push_back(frames_of(newest, newest.size(kFrameDim) - 1, 1));
  }
  auto seen = at::cat(parts, kFrameDim);
  const auto count = seen.size(kFrameDim);
  const bool is_enough = count >= kSeen;
  if (passage.is_last()) before = at::Tensor();
  else if (count > 0) before = is_enough ? frames_of(seen, count - (kSeen - 1), kSeen - 1).clone() : seen;
  if (!is_enough) {
    auto sizes = x.sizes().vec();
    sizes[1] = conv_.out_features();
    sizes[kFrameDim] = 0;
    return at::empty(sizes, x.options());
  }
  return conv_.forward(edges_ == Edges::mirrored ? mirrored(seen) : seen);
}

at::Tensor normed_silu(const at::Tensor& x) {
  const auto lengths = (x.square().mean(1, /*keepdim=*/true) + kNormEps).sqrt();
  auto normed = x / lengths;
  return at::silu_(normed);
}

FrameResnet::FrameResnet(int64_t channels, const HalfConfig& half, const at::TensorOptions& o)
    : conv1_(channels, channels, half, o), conv2_(channels, channels, half, o) {
  own("conv1", conv1_);
  own("conv2", conv2_);
}

at::Tensor FrameResnet::forward(const at::Tensor& x, Passage& passage) const {
  const auto y = conv2_.forward(normed_silu(conv1_.forward(normed_silu(x), passage)), passage);
  return passage.delayed(*this, x, y.size(kFrameDim)) + y;
}

FrameResnets::FrameResnets(int64_t count, int64_t channels, const HalfConfig& half, const at::TensorOptions& o) {
  for (int64_t i = 0; i < count; ++i) {
    resnets_.push_back(std::make_unique<FrameResnet>(channels, half, o));
    own("resnets." + std::to_string(i), *resnets_.back());
  }
}

at::Tensor FrameResnets::forward(at::Tensor x, Passage& passage) const {
  for (const auto& resnet : resnets_) x = resnet->forward(x, passage);
  return x;
}

StepDown::StepDown(int64_t in, int64_t out, const Step& step, const HalfConfig& half, const at::TensorOptions& o)
    : step_(step), out_(out), conv_(in, out / step.product(), half, o) {
  own("conv", conv_);
}

at::Tensor StepDown::forward(const at::Tensor& in, Passage& passage) const {
  auto& has_begun = passage.kept(*this);
  auto x = in;
  if (!has_begun.defined() && step_.in_time > 1) x = at::cat({frames_of(in, 0, step_.in_time - 1), in}, kFrameDim);
  has_begun = at::empty({0});
  const auto means = to_channels(x, step_).unflatten(1, {out_, -1}).mean(2);
  return to_channels(conv_.forward(x, passage), step_) + means;
}

StepUp::StepUp(int64_t in, const Level& level, const HalfConfig& half, const at::TensorOptions& o)
    : level_(level), conv_(in, level.channels * level.step.product(), half, o) {
  own("conv", conv_);
}

at::Tensor StepUp::forward(const at::Tensor& in, Passage& passage) const {
  const auto made = conv_.forward(in, passage);
  auto x = to_places(made, level_.step);
  if (level_.adds_input) {
    const auto seen = to_places(passage.delayed(*this, in, made.size(kFrameDim)), level_.step);
    x = x + seen.repeat({1, level_.channels / seen.size(1), 1, 1, 1});
  }
  auto& has_begun = passage.kept(*this, 1);
  if (has_begun.defined() || x.size(kFrameDim) == 0) return x;
  has_begun = at::empty({0});
  return frames_of(x, level_.step.in_time - 1, x.size(kFrameDim) - level_.step.in_time + 1);
}

}  // namespace burnish::models::ltx2
