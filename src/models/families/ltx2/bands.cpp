#include "models/families/ltx2/bands.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/hann_window.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/stft.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>

namespace burnish::models::ltx2 {

namespace {

/// Slaney's scale (Auditory Toolbox, 1998): steps of 200/3 Hz up to 1 kHz, which is 15, and 27 steps for each factor of 6.4 above.
constexpr double kHertzAStep = 200.0 / 3, kBend = 1000, kBendStep = 15, kStepsAFactor = 27, kFactor = 6.4;
constexpr double kSilence = 1e-5;

double steps_of(double hertz) {
  return hertz < kBend ? hertz / kHertzAStep : kBendStep + std::log(hertz / kBend) / std::log(kFactor) * kStepsAFactor;
}
at::Tensor hertz_of(const at::Tensor& steps) {
  const auto above = kBend * ((steps - kBendStep) * (std::log(kFactor) / kStepsAFactor)).exp();
  return at::where(steps < kBendStep, steps * kHertzAStep, above);
}

}  // namespace

at::Tensor band_weights(const BandConfig& b, const at::TensorOptions& options) {
  const auto exact = at::TensorOptions().dtype(at::kDouble);
  const auto highest = static_cast<double>(b.rate) / 2;
  const auto pitches = at::arange(b.window / 2 + 1, exact) * (highest / static_cast<double>(b.window / 2));
  const auto corners = hertz_of(at::arange(b.num_bands + 2, exact) * (steps_of(highest) / static_cast<double>(b.num_bands + 1)));
  const auto begins = corners.narrow(0, 0, b.num_bands).unsqueeze(1), peaks = corners.narrow(0, 1, b.num_bands).unsqueeze(1),
             ends = corners.narrow(0, 2, b.num_bands).unsqueeze(1);
  const auto rising = (pitches - begins) / (peaks - begins), falling = (ends - pitches) / (ends - peaks);
  const auto triangles = at::minimum(rising, falling).clamp_min(0) * (2 / (ends - begins));
  return triangles.to(options);
}

at::Tensor log_bands(const at::Tensor& samples, const BandConfig& b) {
  const auto shortest = b.window / 2 + 1, missing = std::max<int64_t>(shortest - samples.size(-1), 0);
  const auto flat = at::constant_pad_nd(samples.to(at::kDouble), {0, missing}).flatten(0, -2);
  // The logarithm is of what rounding leaves where hardly anything is heard, and fp32 leaves more.
  const auto window = at::hann_window(b.window, flat.options());
  const auto magnitudes = at::stft(flat, b.window, b.step, b.window, window, /*center=*/true, "reflect", /*normalized=*/false,
                                   /*onesided=*/true, /*return_complex=*/true)
                              .abs();
  const auto strengths = at::matmul(band_weights(b, flat.options()), magnitudes)
                             .clamp_min(kSilence)
                             .log()
                             .transpose(1, 2)
                             .narrow(1, 0, samples.size(-1) / b.step + 1);
  auto sizes = samples.sizes().vec();
  sizes.pop_back();
  sizes.insert(sizes.end(), {strengths.size(1), strengths.size(2)});
  return strengths.reshape(sizes).to(at::kFloat);
}

}  // namespace burnish::models::ltx2
