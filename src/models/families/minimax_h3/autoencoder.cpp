#include "models/families/minimax_h3/autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/reflection_pad3d.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "models/families/minimax_h3/decoder.h"
#include "models/families/minimax_h3/tiles.h"
#include "models/vae/causal_layers.h"

namespace burnish::models::minimax_h3 {

namespace {

constexpr int64_t kKernel = 3, kFrameDim = 2;
/// Mean and deviation of ImageNet's colours from 0 to 1.
const std::vector<double> kMeanOfColours{0.485, 0.456, 0.406}, kDeviationOfColours{0.229, 0.224, 0.225};

/// One number for each channel of x [B, C, F, H, W].
at::Tensor per_channel(const std::vector<double>& numbers, const at::Tensor& x) {
  return at::tensor(numbers, x.options().dtype(at::kFloat)).view({-1, 1, 1, 1});
}

kernels::Window window_of(int64_t in_time, int64_t in_space) {
  return {.kernel = {kKernel, kKernel, kKernel},
          .stride = {in_time, in_space, in_space},
          .padding = {0, 0, 0},
          .dilation = {1, 1, 1},
          .causal = true};
}

/// A convolution that sees the two frames before, zeros before a clip, and a picture mirrored at its edges. One that steps in space has
/// one mirrored row and column behind, others one on every side.
class FrameConv : public nn::Conv {
 public:
  FrameConv(int64_t in, int64_t out, const at::TensorOptions& o, int64_t in_time = 1, int64_t in_space = 1)
      : nn::Conv(in, out, window_of(in_time, in_space), o), before_(in_space == 1 ? 1 : 0) {}
  at::Tensor forward(const at::Tensor& x) const {
    auto padded = at::reflection_pad3d(x, {before_, 1, before_, 1, 0, 0});
    // A picture alone is seen by the kernel's last slice, and needs none before it.
    if (x.size(kFrameDim) > 1) padded = at::constant_pad_nd(padded, {0, 0, 0, 0, kKernel - 1, 0});
    return nn::Conv::forward(padded);
  }

 private:
  int64_t before_;
};

at::Tensor normed_silu(const nn::GroupNorm& norm, const at::Tensor& x) {
  return vae::by_frame(x, [&](const at::Tensor& frames) { return norm.forward_silu(frames.contiguous()); });
}

class Resnet : public nn::Module {
 public:
  Resnet(int64_t in, int64_t out, const EncoderConfig& c, const at::TensorOptions& o)
      : norm1_(c.num_groups, in, c.eps, o), norm2_(c.num_groups, out, c.eps, o), conv1_(in, out, o), conv2_(out, out, o) {
    own("norm1", norm1_);
    own("conv1", conv1_);
    own("norm2", norm2_);
    own("conv2", conv2_);
    if (in == out) return;
    shortcut_ = std::make_unique<nn::Conv>(in, out, kernels::Window::cube(3, 1), o);
    own("conv_shortcut", *shortcut_);
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto y = conv2_.forward(normed_silu(norm2_, conv1_.forward(normed_silu(norm1_, x))));
    return (shortcut_ ? shortcut_->forward(x) : x) + y;
  }

 private:
  nn::GroupNorm norm1_, norm2_;
  FrameConv conv1_, conv2_;
  std::unique_ptr<nn::Conv> shortcut_;
};

/// Residual blocks of as many channels, and behind them a step down where the level has one.
class Level : public nn::Module {
 public:
  Level(const EncoderConfig& c, size_t number, const at::TensorOptions& o) {
    const auto out = c.block_out_channels[number], in = number == 0 ? c.block_out_channels[0] : c.block_out_channels[number - 1];
    for (int64_t i = 0; i < c.layers_per_block; ++i) {
      resnets_.push_back(std::make_unique<Resnet>(i == 0 ? in : out, out, c, o));
      own("resnets." + std::to_string(i), *resnets_.back());
    }
    const auto in_time = c.steps_in_time[number], in_space = c.steps_in_space[number];
    if (in_time * in_space == 1) return;
    step_ = std::make_unique<FrameConv>(out, out, o, in_time, in_space);
    own("downsamplers.0.conv", *step_);
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& resnet : resnets_) x = resnet->forward(x);
    return step_ ? step_->forward(x) : x;
  }

 private:
  std::vector<std::unique_ptr<Resnet>> resnets_;
  std::unique_ptr<FrameConv> step_;
};

}  // namespace

struct Autoencoder::Encoder : nn::Module {
  Encoder(const EncoderConfig& c, int64_t latent_channels, const at::TensorOptions& o)
      : conv_in(3, c.block_out_channels.front(), o),
        norm_out(c.num_groups, c.block_out_channels.back(), c.eps, o),
        conv_out(c.block_out_channels.back(), 2 * latent_channels, o) {
    own("conv_in", conv_in);
    for (size_t i = 0; i < c.block_out_channels.size(); ++i) {
      levels.push_back(std::make_unique<Level>(c, i, o));
      own("down_blocks." + std::to_string(i), *levels.back());
    }
    own("norm_out", norm_out);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& clip) const {
    auto x = conv_in.forward(clip);
    for (const auto& level : levels) x = level->forward(x);
    return conv_out.forward(normed_silu(norm_out, x));
  }
  FrameConv conv_in;
  std::vector<std::unique_ptr<Level>> levels;
  nn::GroupNorm norm_out;
  FrameConv conv_out;
};

Autoencoder::Autoencoder(const AutoencoderConfig& c, const at::TensorOptions& o)
    : config_(c),
      encoder_(std::make_unique<Encoder>(c.encoder, c.latent_channels, o)),
      decoder_(std::make_unique<Decoder>(c, o)),
      quant_conv_(2 * c.latent_channels, 2 * c.latent_channels, kernels::Window::cube(3, 1), o),
      post_quant_conv_(c.latent_channels, c.latent_channels, kernels::Window::cube(3, 1), o) {
  own("encoder", *encoder_);
  own("quant_conv", quant_conv_);
  own("post_quant_conv", post_quant_conv_);
  own("decoder", *decoder_);
}

Autoencoder::~Autoencoder() = default;

at::Tensor Autoencoder::encoded(const at::Tensor& clip) const {
  const TileScale scale{config_.downsampling(), 1};
  return in_even_tiles(clip, config_.tiling, config_.downsampling(), scale,
                       [&](const at::Tensor& tile) { return quant_conv_.forward(encoder_->forward(tile)); });
}

vae::Encoder::Moments Autoencoder::encode(const at::Tensor& frames) const {
  if (frames.dim() == 4) {
    auto moments = encode(frames.unsqueeze(kFrameDim));
    return {moments.mean_BCHW.squeeze(kFrameDim), moments.logvar_BCHW.squeeze(kFrameDim)};
  }
  const auto shares = frames.scalar_type() == at::kByte ? frames.to(at::kFloat) / 255 : frames.to(at::kFloat) / 2 + 0.5;
  auto clip = (shares - per_channel(kMeanOfColours, frames)) / per_channel(kDeviationOfColours, frames);
  const auto num_frames = clip.size(kFrameDim), length = config_.clip_length;
  std::vector<at::Tensor> clips;
  if (num_frames == 1) clips.push_back(encoded(clip));
  for (int64_t first = 0; num_frames > 1 && first < num_frames; first += length) {
    const auto count = std::min(length, num_frames - first);
    auto part = clip.narrow(kFrameDim, first, count);
    if (count < length)
      part = at::cat({part, clip.narrow(kFrameDim, num_frames - 1, 1).expand({-1, -1, length - count, -1, -1})}, kFrameDim);
    clips.push_back(encoded(part));
  }
  auto both = clips.size() == 1 ? clips[0] : at::cat(clips, kFrameDim);
  if (num_frames > 1) both = both.narrow(kFrameDim, 0, both.size(kFrameDim) - config_.num_dropped);
  const auto raw = vae::Encoder::moments_of(both);
  const auto deviation = per_channel(config_.latents_std, raw.mean_BCHW);
  return {(raw.mean_BCHW - per_channel(config_.latents_mean, raw.mean_BCHW)) / deviation, raw.logvar_BCHW - 2 * deviation.log()};
}

at::Tensor Autoencoder::decoded_clip(const at::Tensor& latents) const {
  const TileScale scale{1, config_.downsampling()};
  return in_even_tiles(latents, config_.tiling, config_.downsampling(), scale, [&](const at::Tensor& tile) {
    return static_cast<const Decoder&>(*decoder_).forward(post_quant_conv_.forward(tile.contiguous()));
  });
}

/// Seven latents at a time give twenty frames and eight, of which the first three each stand before a clip; the eight are faded into the
/// next twenty.
at::Tensor Autoencoder::decoded(const at::Tensor& latents) const {
  const auto in_clip = config_.latents_per_clip(), per_latent = config_.frames_per_latent(), before = config_.num_frames_before();
  const auto num_beside = in_clip - config_.num_dropped, num_faded = std::max<int64_t>(num_beside * per_latent - before, 0);
  // Two latents have none behind them that the eight frames of others are faded into.
  if (latents.size(kFrameDim) <= num_beside) {
    const auto frames = decoded_clip(latents);
    return frames.narrow(kFrameDim, before, frames.size(kFrameDim) - before);
  }
  const auto missing = (in_clip - (latents.size(kFrameDim) + config_.num_dropped) % in_clip) % in_clip;
  auto whole = latents;
  if (missing > 0)
    whole = at::cat({latents, latents.narrow(kFrameDim, latents.size(kFrameDim) - 1, 1).expand({-1, -1, missing, -1, -1})}, kFrameDim);
  std::vector<at::Tensor> parts;
  at::Tensor behind;
  for (int64_t first = 0; first + in_clip + num_beside <= whole.size(kFrameDim); first += in_clip) {
    const auto frames = decoded_clip(whole.narrow(kFrameDim, first, in_clip + num_beside));
    auto part = frames.narrow(kFrameDim, before, in_clip * per_latent - before);
    if (behind.defined()) part = faded(behind, part, kFrameDim, num_faded);
    parts.push_back(part);
    behind = frames.narrow(kFrameDim, in_clip * per_latent + before, num_beside * per_latent - before);
  }
  if (parts.empty()) throw std::logic_error("a clip of " + std::to_string(latents.size(kFrameDim)) + " latents, and 7 are the fewest");
  parts.push_back(behind);
  // Latents that fill up stand for fewer frames where they begin a clip.
  int64_t num_filled = 0;
  for (int64_t i = 0; i < missing; ++i) num_filled += (latents.size(kFrameDim) + i) % in_clip == 0 ? per_latent - before : per_latent;
  const auto all = at::cat(parts, kFrameDim);
  return all.narrow(kFrameDim, 0, all.size(kFrameDim) - num_filled);
}

at::Tensor Autoencoder::decode(const at::Tensor& latents) const {
  if (latents.dim() == 4) return decode(latents.unsqueeze(kFrameDim)).squeeze(kFrameDim);
  auto raw = latents.to(at::kFloat) * per_channel(config_.latents_std, latents) + per_channel(config_.latents_mean, latents);
  const bool is_picture = raw.size(kFrameDim) == 1;
  auto frames = is_picture ? decoded_clip(raw.expand({-1, -1, 2, -1, -1})).narrow(kFrameDim, config_.num_frames_before(), 1) : decoded(raw);
  return (frames * per_channel(kDeviationOfColours, frames) + per_channel(kMeanOfColours, frames)).clamp(0, 1) * 2 - 1;
}

}  // namespace burnish::models::minimax_h3
