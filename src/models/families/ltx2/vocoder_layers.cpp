#include "models/families/ltx2/vocoder_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinc.h>

#include <cmath>
#include <numbers>
#include <string>

namespace burnish::models::ltx2 {

namespace {

constexpr double kLeastAmplitude = 1e-9, kLobes = 6, kRolloff = 0.99;
constexpr int64_t kTwice = 2, kUnpadded = 0, kUndilated = 1;

/// Puts `times` places in the place of each by a filter [1, 1, taps], without those that lie beyond the ends, where x goes on as it ends.
at::Tensor widened(const at::Tensor& x, const at::Tensor& filter, int64_t times, int64_t beside, int64_t cut) {
  const auto channels = x.size(1);
  const auto all =
      at::conv_transpose1d(at::replication_pad1d(x, {beside, beside}), filter.expand({channels, 1, -1}), {}, {times}, {0}, {0}, channels) *
      static_cast<double>(times);
  return all.narrow(2, cut, x.size(2) * times);
}

at::Tensor of_channel(const at::Tensor& numbers_C) { return at::exp(numbers_C).view({1, -1, 1}); }

}  // namespace

std::unique_ptr<nn::Conv> time_conv(int64_t in, int64_t out, int64_t kernel, int64_t dilation, const at::TensorOptions& o, bool with_bias) {
  const kernels::Window window{.kernel = {kernel}, .stride = {1}, .padding = {(kernel - 1) * dilation / 2}, .dilation = {dilation}};
  return std::make_unique<nn::Conv>(in, out, window, o, with_bias);
}

WideningConv::WideningConv(int64_t in, int64_t out, int64_t kernel, int64_t step, const at::TensorOptions& o)
    : step_(step), padding_((kernel - step) / 2), weight_(at::empty({in, out, kernel}, o)), bias_(at::empty({out}, o)) {
  own("weight", weight_);
  own("bias", bias_);
}

at::Tensor WideningConv::forward(const at::Tensor& x) const {
  return at::conv_transpose1d(x, weight_, bias_, {step_}, {padding_}, {0}, 1, {1});
}

SmoothWave::SmoothWave(int64_t channels, bool has_two_numbers, int64_t num_taps, const at::TensorOptions& o)
    : alpha_(at::empty({channels}, o)), up_(at::empty({1, 1, num_taps}, o)), down_(at::empty({1, 1, num_taps}, o)) {
  own("act.alpha", alpha_);
  if (has_two_numbers) {
    beta_ = at::empty({channels}, o);
    own("act.beta", beta_);
  }
  own("upsample.filter", up_);
  own("downsample.filter", down_);
}

at::Tensor SmoothWave::forward(const at::Tensor& x) const {
  const auto taps = up_.size(2), beside = taps / kTwice - 1;
  auto twice = widened(x, up_, kTwice, beside, beside * kTwice + (taps - kTwice) / 2);
  const auto frequency = of_channel(alpha_), amplitude = beta_.defined() ? of_channel(beta_) : frequency;
  twice = twice + at::sin(twice * frequency).square() / (amplitude + kLeastAmplitude);
  const auto before = taps / 2 - 1 + taps % 2, behind = taps / 2;
  return at::conv1d(at::replication_pad1d(twice, {before, behind}), down_.expand({x.size(1), 1, -1}), {}, at::IntArrayRef(kTwice),
                    at::IntArrayRef(kUnpadded), at::IntArrayRef(kUndilated), x.size(1));
}

VocoderBlock::VocoderBlock(const GeneratorConfig& c, int64_t channels, size_t number, const at::TensorOptions& o)
    : slope_(c.activation.slope) {
  const auto& dilations = c.dilations[number];
  for (size_t i = 0; i < dilations.size(); ++i) {
    for (const std::string half : {"1", "2"}) {
      const auto place = half + "." + std::to_string(i);
      convs_.push_back(time_conv(channels, channels, c.block_kernels[number], half == "1" ? dilations[i] : 1, o));
      own("convs" + place, *convs_.back());
      if (!c.activation.is_smooth) continue;
      waves_.push_back(std::make_unique<SmoothWave>(channels, c.activation.has_two_numbers, c.activation.num_taps, o));
      own("acts" + place, *waves_.back());
    }
  }
}

at::Tensor VocoderBlock::activated(size_t number, const at::Tensor& x) const {
  return waves_.empty() ? at::leaky_relu(x, slope_) : waves_[number]->forward(x);
}

at::Tensor VocoderBlock::forward(at::Tensor x) const {
  for (size_t i = 0; i < convs_.size(); i += 2) {
    const auto dilated = convs_[i]->forward(activated(i, x));
    x = x + convs_[i + 1]->forward(activated(i + 1, dilated));
  }
  return x;
}

at::Tensor raised(const at::Tensor& x, int64_t times) {
  const auto width = static_cast<int64_t>(std::ceil(kLobes / kRolloff)), taps = 2 * width * times + 1;
  const auto exact = at::TensorOptions().dtype(at::kDouble).device(x.device());
  const auto time = (at::arange(taps, exact) / static_cast<double>(times) - static_cast<double>(width)) * kRolloff;
  const auto window = at::cos(time.clamp(-kLobes, kLobes) * (std::numbers::pi / kLobes / 2)).square();
  const auto filter = at::sinc(time) * window * (kRolloff / static_cast<double>(times));
  return widened(x, filter.view({1, 1, -1}).to(x.scalar_type()), times, width, 2 * width * times);
}

}  // namespace burnish::models::ltx2
