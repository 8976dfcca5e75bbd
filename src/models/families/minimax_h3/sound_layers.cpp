#include "models/families/minimax_h3/sound_layers.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/conv_transpose1d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/kaiser_window.h>
#include <ATen/ops/replication_pad1d.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinc.h>

#include <numbers>
#include <vector>

namespace burnish::models::minimax_h3 {

namespace {

constexpr double kLeast = 1e-9;  // keeps divisors from being zero
constexpr int64_t kTaps = 12, kTwice = 2, kNone = 0, kOne = 1;
/// Half of the lower rate as a share of the higher one, and the width of what the filter lets through in part.
constexpr double kCutoff = 0.25, kHalfWidth = 0.3;

at::Tensor of_channels(const at::Tensor& numbers_C) { return numbers_C.view({1, -1, 1}); }

}  // namespace

TimeConv::TimeConv(int64_t in, int64_t out, const TimeSteps& steps, const at::TensorOptions& o) : steps_(steps) {
  const std::vector<int64_t> shape{steps.widens ? in : out, steps.widens ? out : in, steps.kernel};
  if (steps.is_normed) {
    length_ = at::empty({shape[0], 1, 1}, o);
    direction_ = at::empty(shape, o);
    own("weight_g", length_);
    own("weight_v", direction_);
  } else {
    weight_ = at::empty(shape, o);
    own("weight", weight_);
  }
  if (!steps.has_bias) return;
  bias_ = at::empty({out}, o);
  own("bias", bias_);
}

at::Tensor TimeConv::forward(const at::Tensor& x) const {
  const auto weight = steps_.is_normed ? direction_ * (length_ / direction_.norm(2, {1, 2}, /*keepdim=*/true)) : weight_;
  if (steps_.widens) return at::conv_transpose1d(x, weight, bias_, {steps_.stride}, {steps_.padding}, {0}, 1, {steps_.dilation});
  return at::conv1d(x, weight, bias_, at::IntArrayRef(steps_.stride), at::IntArrayRef(steps_.padding), at::IntArrayRef(steps_.dilation));
}

Snake::Snake(int64_t channels, const at::TensorOptions& o) : alpha_(at::empty({1, channels, 1}, o)) { own("alpha", alpha_); }

at::Tensor Snake::forward(const at::Tensor& x) const { return x + at::sin(alpha_ * x).square() / (alpha_ + kLeast); }

SmoothSnake::SmoothSnake(int64_t channels, const at::TensorOptions& o) : alpha_(at::empty({channels}, o)), beta_(at::empty({channels}, o)) {
  own("act.alpha", alpha_);
  own("act.beta", beta_);
}

at::Tensor filter_of_twice(const at::TensorOptions& options) {
  const auto o = options.dtype(at::kFloat);
  constexpr int64_t kHalf = kTaps / 2;
  // Kaiser's formula for what a filter of so many taps lets through where it should not.
  const double attenuation = 2.285 * (kHalf - 1) * std::numbers::pi * (4 * kHalfWidth) + 7.95;
  const double beta = 0.1102 * (attenuation - 8.7);
  const auto time = at::arange(-kHalf, kHalf, o) + 0.5;
  const auto filter = at::kaiser_window(kTaps, /*periodic=*/false, beta, o) * at::sinc(time * (2 * kCutoff)) * (2 * kCutoff);
  return filter / filter.sum();
}

at::Tensor SmoothSnake::forward(const at::Tensor& x) const {
  const auto channels = x.size(1);
  const auto filter = filter_of_twice(x.options()).expand({channels, 1, kTaps});
  // Twice as many samples, of which those at the ends see the outermost ones again.
  constexpr int64_t kBeside = kTaps / kTwice - 1, kCut = kBeside * kTwice + (kTaps - kTwice) / 2;
  auto twice = at::conv_transpose1d(at::replication_pad1d(x, {kBeside, kBeside}), filter, {}, {kTwice}, {0}, {0}, channels) * kTwice;
  twice = twice.narrow(2, kCut, twice.size(2) - 2 * kCut);
  const auto alpha = of_channels(at::exp(alpha_)), beta = of_channels(at::exp(beta_));
  twice = twice + at::sin(alpha * twice).square() / (beta + kLeast);
  return at::conv1d(at::replication_pad1d(twice, {kTaps / 2 - 1, kTaps / 2}), filter, {}, at::IntArrayRef(kTwice), at::IntArrayRef(kNone),
                    at::IntArrayRef(kOne), channels);
}

}  // namespace burnish::models::minimax_h3
