#include "models/vae/autoencoder_kl.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "models/vae/tiles.h"
#include "nn/attention.h"

namespace burnish::models::vae {

namespace {

constexpr double kEps = 1e-6;

class ResnetBlock : public nn::Module {
 public:
  ResnetBlock(int64_t in, int64_t out, int64_t groups, const at::TensorOptions& options)
      : norm1_(groups, in, kEps, options),
        norm2_(groups, out, kEps, options),
        conv1_(in, out, 3, 1, 1, options),
        conv2_(out, out, 3, 1, 1, options) {
    own("norm1", norm1_);
    own("conv1", conv1_);
    own("norm2", norm2_);
    own("conv2", conv2_);
    if (in != out) {
      shortcut_ = std::make_unique<nn::Conv2d>(in, out, 1, 1, 0, options);
      own("conv_shortcut", *shortcut_);
    }
  }
  at::Tensor forward(const at::Tensor& x) const {
    auto y = conv2_.forward(norm2_.forward_silu(conv1_.forward(norm1_.forward_silu(x))));
    return (shortcut_ ? shortcut_->forward(x) : x) + y;
  }

 private:
  nn::GroupNorm norm1_, norm2_;
  nn::Conv2d conv1_, conv2_;
  std::unique_ptr<nn::Conv2d> shortcut_;
};

/// Self-attention over all positions with one head.
class AttentionBlock : public nn::Module {
 public:
  AttentionBlock(int64_t channels, int64_t groups, const at::TensorOptions& options)
      : norm_(groups, channels, kEps, options),
        q_(channels, channels, options),
        k_(channels, channels, options),
        v_(channels, channels, options),
        out_(channels, channels, options) {
    own("group_norm", norm_);
    own("to_q", q_);
    own("to_k", k_);
    own("to_v", v_);
    own("to_out.0", out_);
  }
  at::Tensor forward(const at::Tensor& x_BCHW) const {
    auto tokens_BLC = norm_.forward(x_BCHW).flatten(2).transpose(1, 2);
    auto head = [&](const nn::Linear& layer) { return layer.forward(tokens_BLC).unsqueeze(1); };
    auto y_BLC = out_.forward(nn::attention(head(q_), head(k_), head(v_)).squeeze(1));
    return x_BCHW + y_BLC.transpose(1, 2).reshape(x_BCHW.sizes());
  }

 private:
  nn::GroupNorm norm_;
  nn::Linear q_, k_, v_, out_;
};

}  // namespace

/// The residual blocks of one resolution, and the step to the next.
struct Level : nn::Module {
  enum class Step { none, down, up };
  Level(int64_t in, int64_t out, int64_t num_blocks, Step next, int64_t groups, const at::TensorOptions& options) : step(next) {
    for (int64_t i = 0; i < num_blocks; ++i) {
      resnets.push_back(std::make_unique<ResnetBlock>(i == 0 ? in : out, out, groups, options));
      own("resnets." + std::to_string(i), *resnets.back());
    }
    if (step == Step::none) return;
    bool down = step == Step::down;
    conv = std::make_unique<nn::Conv2d>(out, out, 3, down ? 2 : 1, down ? 0 : 1, options);
    own(down ? "downsamplers.0.conv" : "upsamplers.0.conv", *conv);
  }
  at::Tensor forward(at::Tensor x) const {
    for (const auto& block : resnets) x = block->forward(x);
    if (step == Step::down) return conv->forward(at::pad(x, {0, 1, 0, 1}));  // one row and column at the far sides only
    if (step == Step::up) return conv->forward(at::upsample_nearest2d(x, {x.size(2) * 2, x.size(3) * 2}));
    return x;
  }
  Step step;
  std::vector<std::unique_ptr<ResnetBlock>> resnets;
  std::unique_ptr<nn::Conv2d> conv;
};

struct MidBlock : nn::Module {
  MidBlock(int64_t channels, int64_t groups, const at::TensorOptions& options)
      : first(channels, channels, groups, options), second(channels, channels, groups, options), attention(channels, groups, options) {
    own("resnets.0", first);
    own("attentions.0", attention);
    own("resnets.1", second);
  }
  at::Tensor forward(const at::Tensor& x) const { return second.forward(attention.forward(first.forward(x))); }
  ResnetBlock first, second;
  AttentionBlock attention;
};

Encoder::Encoder(const KlConfig& c, const at::TensorOptions& options)
    : mid_(std::make_unique<MidBlock>(c.block_out_channels.back(), c.norm_num_groups, options)),
      conv_in_(3, c.block_out_channels.front(), 3, 1, 1, options),
      conv_out_(c.block_out_channels.back(), 2 * c.latent_channels, 3, 1, 1, options),
      norm_out_(c.norm_num_groups, c.block_out_channels.back(), kEps, options) {
  own("conv_in", conv_in_);
  auto in = c.block_out_channels.front();
  for (size_t i = 0; i < c.block_out_channels.size(); ++i) {
    auto out = c.block_out_channels[i];
    auto step = i + 1 < c.block_out_channels.size() ? Level::Step::down : Level::Step::none;
    levels_.push_back(std::make_unique<Level>(in, out, c.layers_per_block, step, c.norm_num_groups, options));
    own("down_blocks." + std::to_string(i), *levels_.back());
    in = out;
  }
  own("mid_block", *mid_);
  own("conv_norm_out", norm_out_);
  own("conv_out", conv_out_);
  if (c.use_quant_conv) {
    quant_conv_ = std::make_unique<nn::Conv2d>(2 * c.latent_channels, 2 * c.latent_channels, 1, 1, 0, options);
    own("quant_conv", *quant_conv_);
  }
}

Encoder::~Encoder() = default;

at::Tensor Encoder::run(const at::Tensor& image) const {
  auto x = conv_in_.forward(image);
  for (const auto& level : levels_) x = level->forward(x);
  x = conv_out_.forward(norm_out_.forward_silu(mid_->forward(x)));
  return quant_conv_ ? quant_conv_->forward(x) : x;
}

Encoder::Moments Encoder::moments_of(const at::Tensor& both) {
  auto halves = both.chunk(2, 1);
  return {halves[0], halves[1].clamp(-30.0, 20.0)};
}

Decoder::Decoder(const KlConfig& c, const at::TensorOptions& options)
    : mid_(std::make_unique<MidBlock>(c.channels_of_decoder().back(), c.norm_num_groups, options)),
      conv_in_(c.latent_channels, c.channels_of_decoder().back(), 3, 1, 1, options),
      conv_out_(c.channels_of_decoder().front(), 3, 3, 1, 1, options),
      norm_out_(c.norm_num_groups, c.channels_of_decoder().front(), kEps, options) {
  own("conv_in", conv_in_);
  own("mid_block", *mid_);
  const auto& channels = c.channels_of_decoder();
  auto in = channels.back();
  auto num_levels = channels.size();
  for (size_t i = 0; i < num_levels; ++i) {
    auto out = channels[num_levels - 1 - i];
    auto step = i + 1 < num_levels ? Level::Step::up : Level::Step::none;
    levels_.push_back(std::make_unique<Level>(in, out, c.layers_per_block + 1, step, c.norm_num_groups, options));
    own("up_blocks." + std::to_string(i), *levels_.back());
    in = out;
  }
  own("conv_norm_out", norm_out_);
  own("conv_out", conv_out_);
  if (c.use_post_quant_conv) {
    post_quant_conv_ = std::make_unique<nn::Conv2d>(c.latent_channels, c.latent_channels, 1, 1, 0, options);
    own("post_quant_conv", *post_quant_conv_);
  }
}

Decoder::~Decoder() = default;

at::Tensor Decoder::forward(const at::Tensor& latents) const {
  auto x = mid_->forward(conv_in_.forward(post_quant_conv_ ? post_quant_conv_->forward(latents) : latents));
  for (const auto& level : levels_) x = level->forward(x);
  return conv_out_.forward(norm_out_.forward_silu(x));
}

AutoencoderKL::AutoencoderKL(const KlConfig& c, const at::TensorOptions& options) : encoder(c, options), decoder(c, options), config_(c) {
  own("encoder", encoder);
  own("decoder", decoder);
}

at::Tensor AutoencoderKL::to_model(const at::Tensor& mean) const { return (mean - config_.shift_factor) * config_.scaling_factor; }

Encoder::Moments AutoencoderKL::encode(const at::Tensor& image) const {
  auto size = config_.tile_size;
  auto raw =
      Encoder::moments_of(in_tiles(image, size, size / config_.downsampling(), [&](const at::Tensor& tile) { return encoder.run(tile); }));
  return {to_model(raw.mean_BCHW), raw.logvar_BCHW + 2 * std::log(config_.scaling_factor)};
}

at::Tensor AutoencoderKL::decode(const at::Tensor& latents) const {
  auto size = config_.tile_size;
  return in_tiles(from_model(latents), size / config_.downsampling(), size, [&](const at::Tensor& tile) { return decoder.forward(tile); });
}

at::Tensor AutoencoderKL::from_model(const at::Tensor& latents) const { return latents / config_.scaling_factor + config_.shift_factor; }

}  // namespace burnish::models::vae
