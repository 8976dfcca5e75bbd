#include "models/vae/causal_autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <utility>

#include "kernels/place.h"
#include "models/vae/causal_layers.h"
#include "models/vae/tiles.h"

namespace burnish::models::vae {

namespace {

constexpr int64_t kColours = 3;

at::Tensor per_channel(const std::vector<double>& values, const at::Tensor& like) {
  return at::tensor(values).to(like.options()).view({1, -1, 1, 1, 1});
}

at::Tensor joined(const std::vector<at::Tensor>& chunks) { return (chunks.size() == 1 ? chunks[0] : at::cat(chunks, 2)).contiguous(); }

/// A clip as a CPU's convolutions over time take it: with the channels of a place side by side. In another layout they would copy it, and
/// what they give.
at::Tensor laid_out(const at::Tensor& clip, bool in_time) {
  return in_time && kernels::runs_on_cpu(clip) ? clip.contiguous(at::MemoryFormat::ChannelsLast3d) : clip;
}

/// Frames of a clip as the encoder takes them.
at::Tensor exact(const at::Tensor& frames, const at::Tensor& weight) {
  return frames.scalar_type() == at::kByte ? frames.to(weight.options()).div_(127.5).sub_(1) : frames;
}

/// Frames with as many numbers of a pixel as the encoder takes: nothing shines through.
at::Tensor opaque(const at::Tensor& frames, int64_t num_channels) {
  if (frames.size(1) == num_channels) return frames;
  auto sizes = frames.sizes().vec();
  sizes[1] = 1;
  return at::cat({frames, at::ones(sizes, frames.options())}, 1);
}

/// The encoder sees a patch of pixels as one place with all their channels: channel, column, row.
at::Tensor in_patches(const at::Tensor& x, int64_t side) {
  if (side == 1) return x;
  auto cut = x.unflatten(4, {-1, side}).unflatten(3, {-1, side});  // B C F h row w column
  return cut.permute({0, 1, 6, 4, 2, 3, 5}).flatten(1, 3);
}

at::Tensor out_of_patches(const at::Tensor& x, int64_t side) {
  if (side == 1) return x;
  return x.unflatten(1, {-1, side, side}).permute({0, 1, 4, 5, 3, 6, 2}).flatten(5, 6).flatten(3, 4);
}

/// The residual blocks of one resolution, and the step to the next.
template <class Step>
struct CausalLevel {
  std::vector<std::unique_ptr<CausalResnet>> blocks;
  std::unique_ptr<Step> step;
  /// x is given away, so that it is freed behind the first block.
  at::Tensor forward(at::Tensor x, Past& past) const {
    for (const auto& block : blocks) x = block->forward(x, past);
    return step ? step->forward(x, past) : x;
  }
};

}  // namespace

/// Clips to what the moments are made of. Without shortcuts its blocks and steps are counted on in one row.
struct CausalAutoencoder::Down : nn::Module {
  Down(const CausalConfig& c, const at::TensorOptions& options)
      : shortcuts(c.shortcuts),
        conv_in(c.pixels.channels * c.pixels.patch * c.pixels.patch, c.first_channels, 3, c.in_time, options),
        middle(c.block_out_channels.back(), c.in_time, options),
        norm_out(c.block_out_channels.back(), true, options),
        conv_out(c.block_out_channels.back(), 2 * c.latent_channels, 3, c.in_time, options) {
    own("conv_in", conv_in);
    int64_t number = 0;
    auto in = c.first_channels;
    for (size_t i = 0; i < c.block_out_channels.size(); ++i) {
      const auto name = "down_blocks." + std::to_string(i);
      auto next = [&](const std::string& within) { return shortcuts ? name + within : "down_blocks." + std::to_string(number++); };
      auto& level = levels.emplace_back();
      auto out = c.block_out_channels[i];
      for (int64_t block = 0; block < c.layers_per_block; ++block, in = out) {
        level.blocks.push_back(std::make_unique<CausalResnet>(in, out, c.in_time, options));
        own(next(".resnets." + std::to_string(block)), *level.blocks.back());
      }
      halves.push_back(i < c.halves_frames.size() && c.halves_frames[i]);
      if (i + 1 == c.block_out_channels.size()) break;
      level.step = std::make_unique<StepDown>(out, c.in_time && halves.back(), options);
      own(next(".downsampler"), *level.step);
    }
    own("mid_block", middle);
    own("norm_out", norm_out);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& clip, Past& past) const {
    auto x = conv_in.forward(clip, past);
    for (size_t i = 0; i < levels.size(); ++i) {
      auto entered = shortcuts ? x : at::Tensor();
      x = levels[i].forward(std::move(x), past);
      if (shortcuts) x = x + averaged(entered, x.size(1), halves[i] ? 2 : 1, levels[i].step ? 2 : 1);
    }
    return conv_out.forward(norm_out.forward_silu(middle.forward(x, past)), past);
  }
  bool shortcuts;
  std::vector<bool> halves;
  std::vector<CausalLevel<StepDown>> levels;
  CausalConv conv_in;
  CausalMiddle middle;
  ChannelNorm norm_out;
  CausalConv conv_out;
};

/// The way back. Without shortcuts a step to the next level halves the channels.
struct CausalAutoencoder::Up : nn::Module {
  Up(const CausalConfig& c, const at::TensorOptions& options)
      : shortcuts(c.shortcuts),
        conv_in(c.latent_channels, c.decoder_channels.back(), 3, c.in_time, options),
        middle(c.decoder_channels.back(), c.in_time, options),
        norm_out(c.decoder_channels.front(), true, options),
        conv_out(c.decoder_channels.front(), c.pixels.channels * c.pixels.patch * c.pixels.patch, 3, c.in_time, options) {
    own("conv_in", conv_in);
    own("mid_block", middle);
    auto in = c.decoder_channels.back();
    for (auto i = c.decoder_channels.size(); i-- > 0;) {
      auto out = c.decoder_channels[i];
      auto name = "up_blocks." + std::to_string(levels.size());
      auto& level = levels.emplace_back();
      for (int64_t block = 0; block <= c.layers_per_block; ++block, in = out) {
        level.blocks.push_back(std::make_unique<CausalResnet>(in, out, c.in_time, options));
        own(name + ".resnets." + std::to_string(block), *level.blocks.back());
      }
      doubles.push_back(i > 0 && i - 1 < c.halves_frames.size() && c.halves_frames[i - 1]);
      if (i == 0) break;
      in = shortcuts ? out : out / 2;
      level.step = std::make_unique<StepUp>(out, in, c.in_time && doubles.back(), options);
      own(name + (shortcuts ? ".upsampler" : ".upsamplers.0"), *level.step);
    }
    own("norm_out", norm_out);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& latents, Past& past) const {
    auto x = middle.forward(conv_in.forward(latents, past), past);
    for (size_t i = 0; i < levels.size(); ++i) {
      const bool is_added = shortcuts && levels[i].step;
      auto entered = is_added ? x : at::Tensor();
      x = levels[i].forward(std::move(x), past);
      if (is_added) x = x + repeated(entered, x.size(1), doubles[i] ? 2 : 1, 2, past);
    }
    return conv_out.forward(norm_out.forward_silu(x), past);
  }
  bool shortcuts;
  std::vector<bool> doubles;
  std::vector<CausalLevel<StepUp>> levels;
  CausalConv conv_in;
  CausalMiddle middle;
  ChannelNorm norm_out;
  CausalConv conv_out;
};

CausalAutoencoder::CausalAutoencoder(const CausalConfig& c, const at::TensorOptions& options)
    : config_(c),
      encoder_(std::make_unique<Down>(c, options)),
      decoder_(std::make_unique<Up>(c, options)),
      quant_conv_(std::make_unique<CausalConv>(2 * c.latent_channels, 2 * c.latent_channels, 1, c.in_time, options)),
      post_quant_conv_(std::make_unique<CausalConv>(c.latent_channels, c.latent_channels, 1, c.in_time, options)) {
  own("encoder", *encoder_);
  own("quant_conv", *quant_conv_);
  own("post_quant_conv", *post_quant_conv_);
  own("decoder", *decoder_);
}

CausalAutoencoder::~CausalAutoencoder() = default;

at::Tensor CausalAutoencoder::run_encoder(const at::Tensor& clip) const {
  Past past;
  std::vector<at::Tensor> chunks;
  const auto num_frames = clip.size(2);
  for (int64_t first = 0, count = 1; first < num_frames; first += count, count = config_.frames_per_latent()) {
    past.begin_chunk(/*is_last=*/first + count >= num_frames);
    auto exact_frames = opaque(exact(clip.narrow(2, first, count), encoder_->conv_in.bias), config_.pixels.channels);
    auto frames = in_patches(exact_frames, config_.pixels.patch);
    chunks.push_back(quant_conv_->forward(encoder_->forward(laid_out(frames, config_.in_time), past), past));
  }
  return joined(chunks);
}

Encoder::Moments CausalAutoencoder::encode(const at::Tensor& clip) const {
  if (clip.dim() == 4) {
    auto moments = encode(clip.unsqueeze(2));
    return {moments.mean_BCHW.squeeze(2), moments.logvar_BCHW.squeeze(2)};
  }
  if ((clip.size(2) - 1) % config_.frames_per_latent() != 0 || (clip.size(2) > 1 && !config_.in_time))
    throw std::logic_error("a clip of " + std::to_string(clip.size(2)) + " frames for another autoencoder");
  auto size = config_.tile_size;
  auto both = in_tiles(clip, size, size / config_.downsampling(), [&](const at::Tensor& tile) { return run_encoder(tile); });
  auto halves = both.chunk(2, 1);
  auto deviation = per_channel(config_.latents_std, halves[0]);
  return {(halves[0] - per_channel(config_.latents_mean, halves[0])) / deviation, halves[1].clamp(-30.0, 20.0) - 2 * deviation.log()};
}

void CausalAutoencoder::decode(const at::Tensor& latents, const TakeFrames& take) const {
  if (latents.size(2) > 1 && !config_.in_time) throw std::logic_error("latents of a clip for an autoencoder of pictures");
  auto raw = latents * per_channel(config_.latents_std, latents) + per_channel(config_.latents_mean, latents);
  auto size = config_.tile_size;
  std::deque<Past> pasts;  // one for each tile, in their order
  int64_t first = 0;
  for (int64_t i = 0; i < raw.size(2); ++i) {
    size_t tile_number = 0;
    auto run = [&](const at::Tensor& tile) {
      if (tile_number == pasts.size()) pasts.emplace_back();
      auto& past = pasts[tile_number++];
      past.begin_chunk(/*is_last=*/i + 1 == raw.size(2));
      auto latent = laid_out(tile, config_.in_time);
      return out_of_patches(decoder_->forward(post_quant_conv_->forward(latent, past), past), config_.pixels.patch).contiguous();
    };
    auto frames = in_tiles(raw.narrow(2, i, 1), size / config_.downsampling(), size, run).clamp(-1.0, 1.0);
    if (config_.is_flat()) frames = frames.narrow(1, 0, kColours);
    take(first, frames);
    first += frames.size(2);
  }
}

at::Tensor CausalAutoencoder::decode(const at::Tensor& latents) const {
  if (latents.dim() == 4) return decode(latents.unsqueeze(2)).squeeze(2);
  std::vector<at::Tensor> chunks;
  decode(latents, [&](int64_t, const at::Tensor& frames) { chunks.push_back(frames); });
  return joined(chunks);
}

}  // namespace burnish::models::vae
