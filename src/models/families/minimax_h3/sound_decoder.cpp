#include "models/families/minimax_h3/sound_decoder.h"

#include <ATen/TensorOperators.h>

#include <string>

namespace burnish::models::minimax_h3 {

namespace {

constexpr int64_t kOuterKernel = 7;

TimeSteps outer(const SoundConfig& c, bool has_bias) {
  return {.kernel = kOuterKernel, .padding = kOuterKernel / 2, .has_bias = has_bias, .is_normed = c.has_weight_norm};
}

}  // namespace

/// Pairs of convolutions of one kernel, the first of each pair dilated, added to what they see.
class SoundDecoder::Block : public nn::Module {
 public:
  Block(const SoundConfig& c, int64_t channels, size_t number, const at::TensorOptions& o) {
    const auto kernel = c.decoder.block_kernels[number];
    auto conv = [&](int64_t dilation) {
      return std::make_unique<TimeConv>(
          channels, channels,
          TimeSteps{.kernel = kernel, .padding = (kernel - 1) * dilation / 2, .dilation = dilation, .is_normed = c.has_weight_norm}, o);
    };
    size_t i = 0;
    for (auto dilation : c.decoder.dilations[number]) {
      auto& pair = pairs_.emplace_back(conv(dilation), conv(1));
      own("convs1." + std::to_string(i), *pair.first);
      own("convs2." + std::to_string(i), *pair.second);
      for (size_t k = 0; k < 2; ++k) {
        snakes_.push_back(std::make_unique<SmoothSnake>(channels, o));
        own("activations." + std::to_string(2 * i + k), *snakes_.back());
      }
      ++i;
    }
  }
  at::Tensor forward(at::Tensor x) const {
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const auto& [dilated, plain] = pairs_[i];
      x = plain->forward(snakes_[2 * i + 1]->forward(dilated->forward(snakes_[2 * i]->forward(x)))) + x;
    }
    return x;
  }

 private:
  std::vector<std::pair<std::unique_ptr<TimeConv>, std::unique_ptr<TimeConv>>> pairs_;
  std::vector<std::unique_ptr<SmoothSnake>> snakes_;
};

SoundDecoder::SoundDecoder(const SoundConfig& c, const at::TensorOptions& o)
    : num_kernels_(c.decoder.block_kernels.size()), in_(c.width, c.decoder.channels, outer(c, true), o) {
  own("conv_pre", in_);
  auto channels = c.decoder.channels;
  for (size_t i = 0; i < c.decoder.steps.size(); ++i) {
    const auto step = c.decoder.steps[i], kernel = c.decoder.kernels[i];
    const TimeSteps widening{
        .kernel = kernel, .stride = step, .padding = (kernel - step) / 2, .widens = true, .is_normed = c.has_weight_norm};
    steps_.push_back(std::make_unique<TimeConv>(channels, channels / 2, widening, o));
    own("ups." + std::to_string(i) + ".0", *steps_.back());
    channels /= 2;
    for (size_t k = 0; k < num_kernels_; ++k) {
      blocks_.push_back(std::make_unique<Block>(c, channels, k, o));
      own("resblocks." + std::to_string(i * num_kernels_ + k), *blocks_.back());
    }
  }
  last_ = std::make_unique<SmoothSnake>(channels, o);
  out_ = std::make_unique<TimeConv>(channels, 1, outer(c, false), o);
  own("activation_post", *last_);
  own("conv_post", *out_);
}

SoundDecoder::~SoundDecoder() = default;

at::Tensor SoundDecoder::forward(const at::Tensor& latents) const {
  auto x = in_.forward(latents);
  for (size_t i = 0; i < steps_.size(); ++i) {
    x = steps_[i]->forward(x);
    at::Tensor sum;
    for (size_t k = 0; k < num_kernels_; ++k) {
      const auto made = blocks_[i * num_kernels_ + k]->forward(x);
      sum = sum.defined() ? sum + made : made;
    }
    x = sum / static_cast<double>(num_kernels_);
  }
  return out_->forward(last_->forward(x)).clamp(-1, 1);
}

}  // namespace burnish::models::minimax_h3
