#include "models/vae/causal_autoencoder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cmath>

#include "models/vae/tiles.h"
#include "nn/attention.h"

namespace burnish::models::vae {

namespace {

/// Of every place, its channels over their norm, times the square root of their number and gamma.
class ChannelNorm : public nn::Module {
 public:
  /// Files give gamma as many empty dimensions as there are behind the channels: in clips three, in pictures two.
  ChannelNorm(int64_t channels, bool of_clips, const at::TensorOptions& options)
      : gamma_(at::empty(of_clips ? std::vector<int64_t>{channels, 1, 1, 1} : std::vector<int64_t>{channels, 1, 1}, options)) {
    own("gamma", gamma_);
  }
  at::Tensor forward(const at::Tensor& x_BCHW) const {
    auto norm = at::norm(x_BCHW, 2, {1}, /*keepdim=*/true).clamp_min(1e-12);
    return x_BCHW / norm * (gamma_.view({-1, 1, 1}) * std::sqrt(static_cast<double>(gamma_.size(0))));
  }
  at::Tensor forward_silu(const at::Tensor& x_BCHW) const { return at::silu(forward(x_BCHW)); }

 private:
  at::Tensor gamma_;
};

class CausalResnet : public nn::Module {
 public:
  CausalResnet(int64_t in, int64_t out, const at::TensorOptions& options)
      : norm1_(in, true, options), norm2_(out, true, options), conv1_(in, out, 3, 1, 1, options), conv2_(out, out, 3, 1, 1, options) {
    own("norm1", norm1_);
    own("conv1", conv1_);
    own("norm2", norm2_);
    own("conv2", conv2_);
    if (in != out) own("conv_shortcut", *(shortcut_ = std::make_unique<nn::Conv2d>(in, out, 1, 1, 0, options)));
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto y = conv2_.forward(norm2_.forward_silu(conv1_.forward(norm1_.forward_silu(x))));
    return (shortcut_ ? shortcut_->forward(x) : x) + y;
  }

 private:
  ChannelNorm norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  std::unique_ptr<nn::Conv2d> shortcut_;
};

/// Self-attention over all places with one head, between two residual blocks.
class CausalMiddle : public nn::Module {
 public:
  CausalMiddle(int64_t channels, const at::TensorOptions& options)
      : first_(channels, channels, options),
        second_(channels, channels, options),
        norm_(channels, false, options),
        qkv_(channels, 3 * channels, 1, 1, 0, options),
        proj_(channels, channels, 1, 1, 0, options) {
    own("resnets.0", first_);
    own("attentions.0.norm", norm_);
    own("attentions.0.to_qkv", qkv_);
    own("attentions.0.proj", proj_);
    own("resnets.1", second_);
  }
  at::Tensor forward(const at::Tensor& in) const {
    auto x = first_.forward(in);
    auto parts = qkv_.forward(norm_.forward(x)).chunk(3, 1);
    auto head = [](const at::Tensor& part_BCHW) { return part_BCHW.flatten(2).transpose(1, 2).unsqueeze(1); };
    auto y_BLC = nn::attention(head(parts[0]), head(parts[1]), head(parts[2])).squeeze(1);
    return second_.forward(x + proj_.forward(y_BLC.transpose(1, 2).reshape(x.sizes())));
  }

 private:
  CausalResnet first_, second_;
  ChannelNorm norm_;
  nn::Conv2d qkv_, proj_;
};

at::Tensor per_channel(const std::vector<double>& values, const at::Tensor& like) {
  return at::tensor(values).to(like.options()).view({1, -1, 1, 1});
}

}  // namespace

/// Pictures to what the moments are made of. Its blocks and steps are counted on in one row.
struct CausalAutoencoder::Down : nn::Module {
  Down(const CausalConfig& c, const at::TensorOptions& options)
      : conv_in(3, c.first_channels, 3, 1, 1, options),
        middle(c.block_out_channels.back(), options),
        norm_out(c.block_out_channels.back(), true, options),
        conv_out(c.block_out_channels.back(), 2 * c.latent_channels, 3, 1, 1, options) {
    own("conv_in", conv_in);
    int64_t number = 0;
    auto next = [&] { return "down_blocks." + std::to_string(number++); };
    auto in = c.first_channels;
    for (size_t level = 0; level < c.block_out_channels.size(); ++level) {
      auto out = c.block_out_channels[level];
      auto& blocks = levels.emplace_back();
      for (int64_t i = 0; i < c.layers_per_block; ++i, in = out) {
        blocks.push_back(std::make_unique<CausalResnet>(in, out, options));
        own(next(), *blocks.back());
      }
      if (level + 1 == c.block_out_channels.size()) break;
      steps.push_back(std::make_unique<nn::Conv2d>(out, out, 3, 2, 0, options));
      own(next() + ".resample.1", *steps.back());
    }
    own("mid_block", middle);
    own("norm_out", norm_out);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& image) const {
    auto x = conv_in.forward(image);
    for (size_t level = 0; level < levels.size(); ++level) {
      for (const auto& block : levels[level]) x = block->forward(x);
      if (level < steps.size()) x = steps[level]->forward(at::pad(x, {0, 1, 0, 1}));  // one row and column at the far sides only
    }
    return conv_out.forward(norm_out.forward_silu(middle.forward(x)));
  }
  std::vector<std::vector<std::unique_ptr<CausalResnet>>> levels;
  std::vector<std::unique_ptr<nn::Conv2d>> steps;
  nn::Conv2d conv_in;
  CausalMiddle middle;
  ChannelNorm norm_out;
  nn::Conv2d conv_out;
};

/// The way back. A step to the next level halves the channels.
struct CausalAutoencoder::Up : nn::Module {
  Up(const CausalConfig& c, const at::TensorOptions& options)
      : conv_in(c.latent_channels, c.block_out_channels.back(), 3, 1, 1, options),
        middle(c.block_out_channels.back(), options),
        norm_out(c.block_out_channels.front(), true, options),
        conv_out(c.block_out_channels.front(), 3, 3, 1, 1, options) {
    own("conv_in", conv_in);
    own("mid_block", middle);
    auto in = c.block_out_channels.back();
    auto num_levels = c.block_out_channels.size();
    for (size_t level = 0; level < num_levels; ++level) {
      auto out = c.block_out_channels[num_levels - 1 - level];
      auto name = "up_blocks." + std::to_string(level);
      auto& blocks = levels.emplace_back();
      for (int64_t i = 0; i <= c.layers_per_block; ++i, in = out) {
        blocks.push_back(std::make_unique<CausalResnet>(in, out, options));
        own(name + ".resnets." + std::to_string(i), *blocks.back());
      }
      if (level + 1 == num_levels) break;
      in = out / 2;
      steps.push_back(std::make_unique<nn::Conv2d>(out, in, 3, 1, 1, options));
      own(name + ".upsamplers.0.resample.1", *steps.back());
    }
    own("norm_out", norm_out);
    own("conv_out", conv_out);
  }
  at::Tensor forward(const at::Tensor& latents) const {
    auto x = middle.forward(conv_in.forward(latents));
    for (size_t level = 0; level < levels.size(); ++level) {
      for (const auto& block : levels[level]) x = block->forward(x);
      if (level < steps.size()) x = steps[level]->forward(at::upsample_nearest2d(x, {x.size(2) * 2, x.size(3) * 2}));
    }
    return conv_out.forward(norm_out.forward_silu(x));
  }
  std::vector<std::vector<std::unique_ptr<CausalResnet>>> levels;
  std::vector<std::unique_ptr<nn::Conv2d>> steps;
  nn::Conv2d conv_in;
  CausalMiddle middle;
  ChannelNorm norm_out;
  nn::Conv2d conv_out;
};

CausalAutoencoder::CausalAutoencoder(const CausalConfig& c, const at::TensorOptions& options)
    : config_(c),
      encoder_(std::make_unique<Down>(c, options)),
      decoder_(std::make_unique<Up>(c, options)),
      quant_conv_(2 * c.latent_channels, 2 * c.latent_channels, 1, 1, 0, options),
      post_quant_conv_(c.latent_channels, c.latent_channels, 1, 1, 0, options) {
  own("encoder", *encoder_);
  own("quant_conv", quant_conv_);
  own("post_quant_conv", post_quant_conv_);
  own("decoder", *decoder_);
}

CausalAutoencoder::~CausalAutoencoder() = default;

Encoder::Moments CausalAutoencoder::encode(const at::Tensor& image) const {
  auto size = config_.tile_size;
  auto both = in_tiles(image, size, size / config_.downsampling(),
                       [&](const at::Tensor& tile) { return quant_conv_.forward(encoder_->forward(tile)); });
  auto halves = both.chunk(2, 1);
  auto deviation = per_channel(config_.latents_std, halves[0]);
  return {(halves[0] - per_channel(config_.latents_mean, halves[0])) / deviation, halves[1].clamp(-30.0, 20.0) - 2 * deviation.log()};
}

at::Tensor CausalAutoencoder::decode(const at::Tensor& latents) const {
  auto raw = latents * per_channel(config_.latents_std, latents) + per_channel(config_.latents_mean, latents);
  auto size = config_.tile_size;
  return in_tiles(raw, size / config_.downsampling(), size,
                  [&](const at::Tensor& tile) { return decoder_->forward(post_quant_conv_.forward(tile)); })
      .clamp(-1.0, 1.0);
}

}  // namespace burnish::models::vae
