#include "models/families/stable_diffusion/unet.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/upsample_nearest2d.h>

#include <cmath>

#include "models/families/stable_diffusion/unet_blocks.h"

namespace burnish::models::stable_diffusion {

namespace {

/// Sinusoids of each number: [cos | sin] (or [sin | cos]) over frequencies falling from 1 to 1/10000 (diffusers: Timesteps). fp32.
at::Tensor sinusoids(const at::Tensor& numbers, int64_t channels, const Config& c) {
  auto half = channels / 2;
  auto step = -std::log(10000.0) / (static_cast<double>(half) - c.freq_shift);
  auto frequencies = (at::arange(half, numbers.options().dtype(at::kFloat)) * step).exp();
  auto angles = numbers.to(at::kFloat).unsqueeze(-1) * frequencies;
  return c.flip_sin_to_cos ? at::cat({angles.cos(), angles.sin()}, -1) : at::cat({angles.sin(), angles.cos()}, -1);
}

}  // namespace

EmbedMlp::EmbedMlp(int64_t in, int64_t out, const at::TensorOptions& options) : linear_1_(in, out, options), linear_2_(out, out, options) {
  own("linear_1", linear_1_);
  own("linear_2", linear_2_);
}

at::Tensor EmbedMlp::forward(const at::Tensor& x) const { return linear_2_.forward(at::silu(linear_1_.forward(x))); }

/// The blocks of one resolution on one side, and the convolution that halves or doubles it.
struct UNetLevel : nn::Module {
  void add(const Config& c, int64_t in, int64_t out, int64_t num_heads, int64_t depth, const at::TensorOptions& options) {
    auto number = std::to_string(resnets.size());
    resnets.push_back(std::make_unique<ResnetBlock>(c, in, out, options));
    own("resnets." + number, *resnets.back());
    attentions.push_back(depth > 0 ? std::make_unique<SpatialTransformer>(c, out, num_heads, depth, options) : nullptr);
    if (depth > 0) own("attentions." + number, *attentions.back());
  }
  void add_resampler(const char* name, int64_t channels, int64_t stride, const at::TensorOptions& options) {
    resampler = std::make_unique<nn::Conv2d>(channels, channels, 3, stride, 1, options);
    own(name, *resampler);
  }
  at::Tensor step(size_t i, const nn::Tensors& inputs, const at::Tensor& text) {
    auto x = resnets[i]->run(inputs)[0];
    return attentions[i] ? attentions[i]->forward(x, text) : x;
  }
  void list_blocks(std::vector<nn::Block*>& all) {
    for (size_t i = 0; i < resnets.size(); ++i) {
      all.push_back(resnets[i].get());
      if (attentions[i]) attentions[i]->list_blocks(all);
    }
  }
  std::vector<std::unique_ptr<ResnetBlock>> resnets;
  std::vector<std::unique_ptr<SpatialTransformer>> attentions;  ///< null where there is none
  std::unique_ptr<nn::Conv2d> resampler;
};

struct UNetMiddle : nn::Module {
  UNetMiddle(const Config& c, const at::TensorOptions& options)
      : first(c, c.block_out_channels.back(), c.block_out_channels.back(), options),
        second(c, c.block_out_channels.back(), c.block_out_channels.back(), options),
        attention(c, c.block_out_channels.back(), c.num_heads.back(), c.mid_depth, options) {
    own("resnets.0", first);
    own("attentions.0", attention);
    own("resnets.1", second);
  }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& text, const at::Tensor& time) {
    return second.run({attention.forward(first.run({x, time})[0], text), time})[0];
  }
  ResnetBlock first, second;
  SpatialTransformer attention;
};

UNet::UNet(const Config& c, const at::TensorOptions& options)
    : config_(c),
      conv_in_(c.in_channels, c.block_out_channels.front(), 3, 1, 1, options),
      conv_out_(c.block_out_channels.front(), c.out_channels, 3, 1, 1, options),
      time_embedding_(c.block_out_channels.front(), time_width(c), options),
      middle_(std::make_unique<UNetMiddle>(c, options)),
      conv_norm_out_(c.num_groups, c.block_out_channels.front(), c.norm_eps, options) {
  own("conv_in", conv_in_);
  own("time_embedding", time_embedding_);
  if (has_added_embedding(c)) {
    add_embedding_ = std::make_unique<EmbedMlp>(c.pooled_dim + 6 * c.addition_time_embed_dim, time_width(c), options);
    own("add_embedding", *add_embedding_);
  }
  const auto& channels = c.block_out_channels;
  auto last = num_levels(c) - 1;
  for (size_t i = 0; i <= last; ++i) {
    auto& level = *down_.emplace_back(std::make_unique<UNetLevel>());
    auto in = channels[i == 0 ? 0 : i - 1];
    for (size_t j = 0; j < c.down_depths[i].size(); ++j)
      level.add(c, j == 0 ? in : channels[i], channels[i], c.num_heads[i], c.down_depths[i][j], options);
    if (i < last) level.add_resampler("downsamplers.0.conv", channels[i], 2, options);
    own("down_blocks." + std::to_string(i), level);
  }
  own("mid_block", *middle_);
  for (size_t i = 0; i <= last; ++i) {
    auto& level = *up_.emplace_back(std::make_unique<UNetLevel>());
    auto at = last - i;  // the same level on the way down
    auto out = channels[at], before = channels[std::min(at + 1, last)], finer = channels[at == 0 ? 0 : at - 1];
    auto count = c.up_depths[i].size();
    for (size_t j = 0; j < count; ++j) {
      // The last skip of a level is what entered it on the way down.
      auto skip = j + 1 == count ? finer : out;
      level.add(c, (j == 0 ? before : out) + skip, out, c.num_heads[at], c.up_depths[i][j], options);
    }
    if (i < last) level.add_resampler("upsamplers.0.conv", out, 1, options);
    own("up_blocks." + std::to_string(i), level);
  }
  own("conv_norm_out", conv_norm_out_);
  own("conv_out", conv_out_);
}

UNet::~UNet() = default;

std::vector<nn::Block*> UNet::blocks() {
  std::vector<nn::Block*> all;
  for (auto& level : down_) level->list_blocks(all);
  all.push_back(&middle_->first);
  middle_->attention.list_blocks(all);
  all.push_back(&middle_->second);
  for (auto& level : up_) level->list_blocks(all);
  return all;
}

at::Tensor UNet::conditioning(const Inputs& in) const {
  auto dtype = in.latents_BCHW.scalar_type();
  auto time = time_embedding_.forward(sinusoids(in.timestep_B, config_.block_out_channels.front(), config_).to(dtype));
  if (!add_embedding_) return time;
  auto ids = sinusoids(in.time_ids_B6, config_.addition_time_embed_dim, config_).flatten(1);
  return time + add_embedding_->forward(at::cat({in.pooled_BE.to(dtype), ids.to(dtype)}, -1));
}

at::Tensor UNet::forward(const Inputs& in) {
  auto time = at::silu(conditioning(in));
  auto text = in.text_BTE.to(in.latents_BCHW.scalar_type());
  auto x = conv_in_.forward(in.latents_BCHW);
  nn::Tensors skips{x};
  for (auto& level : down_) {
    for (size_t i = 0; i < level->resnets.size(); ++i) skips.push_back(x = level->step(i, {x, time}, text));
    if (level->resampler) skips.push_back(x = level->resampler->forward(x));
  }
  x = middle_->forward(x, text, time);
  for (auto& level : up_) {
    for (size_t i = 0; i < level->resnets.size(); ++i) {
      auto skip = skips.back();
      skips.pop_back();
      x = level->step(i, {x, skip, time}, text);
    }
    // The next level's size is its skip's, also where halving rounded.
    if (level->resampler) x = level->resampler->forward(at::upsample_nearest2d(x, {skips.back().size(2), skips.back().size(3)}));
  }
  return conv_out_.forward(conv_norm_out_.forward_silu(x));
}

void UNet::initialise(uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  visit_parameters([&](const std::string& path, at::Tensor& p) {
    auto fresh = at::empty(p.sizes(), at::TensorOptions().dtype(at::kFloat));
    bool ends_branch = path.find("proj_out.") != path.npos || path.find("conv2.") != path.npos || path.starts_with("conv_out.");
    if (path.ends_with(".bias") || ends_branch) {
      fresh.zero_();
    } else if (p.dim() < 2) {
      fresh.fill_(1.0);
    } else {
      auto bound = 1.0 / std::sqrt(static_cast<double>(p.numel() / p.size(0)));
      fresh.uniform_(-bound, bound, generator);
    }
    p = fresh.to(p.scalar_type());
  });
}

}  // namespace burnish::models::stable_diffusion
