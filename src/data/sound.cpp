#include "data/sound.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <stdexcept>

#include "base/error.h"
#include "data/archived_files.h"
#include "data/clip_library.h"
#include "data/codecs.h"
#include "io/files.h"

namespace burnish::data {

namespace {

constexpr double kLobes = 6, kRolloff = 0.99;

/// What every `to` samples of the result are made of, [to, 1, 2 · width + from], from and to being without a common factor.
at::Tensor kernel_of(int64_t from, int64_t to, int64_t width) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const double cutoff = kRolloff * static_cast<double>(std::min(from, to));
  auto taps = at::arange(-width, width + from, options) / static_cast<double>(from);
  auto phases = at::arange(0, to, options).neg().unsqueeze(1) / static_cast<double>(to);
  auto times = ((taps + phases) * cutoff).clamp(-kLobes, kLobes);
  auto window = at::cos(times * (std::numbers::pi / kLobes / 2)).square();
  return (at::sinc(times) * window * (cutoff / static_cast<double>(from))).to(at::kFloat).unsqueeze(1);
}

RawSound decode(const std::filesystem::path& path, const SoundWindow& window) {
  const auto& library = clip_library_for(path);
  return reading(path.string(), [&] {
    if (io::is_there(path)) return library.decode_sound(path.c_str(), {}, window);
    return library.decode_sound("", read_file_bytes(path), window);  // in an archive
  });
}

}  // namespace

at::Tensor resample(const at::Tensor& samples_L, int64_t from, int64_t to) {
  if (from == to) return samples_L;
  const auto length = samples_L.size(-1), common = std::gcd(from, to);
  from /= common;
  to /= common;
  const auto width =
      static_cast<int64_t>(std::ceil(kLobes * static_cast<double>(from) / (kRolloff * static_cast<double>(std::min(from, to)))));
  auto padded = at::constant_pad_nd(samples_L.reshape({-1, 1, length}), {width, width + from});
  auto phases = at::conv1d(padded, kernel_of(from, to, width), {}, at::IntArrayRef{from});
  auto shape = samples_L.sizes().vec();
  shape.back() = (to * length + from - 1) / from;
  return phases.transpose(1, 2).flatten(1).narrow(1, 0, shape.back()).reshape(shape);
}

double where_missing(const Column& column) { return column.fit == Column::Fit::target ? std::numeric_limits<double>::quiet_NaN() : 0; }

at::Tensor no_sound(const Column& column, int64_t num_samples) {
  const auto sample = where_missing(column);
  return column.channels == 1 ? at::full({num_samples}, sample) : at::full({column.channels, num_samples}, sample);
}

at::Tensor decode_sound(const std::filesystem::path& path, const SoundWindow& window, int64_t rate, int64_t num_channels,
                        double otherwise) {
  auto sound = decode(path, window);
  if (sound.rate == 0) return at::full({num_channels, window.length.num * rate / window.length.den}, otherwise);
  auto samples_CL = at::tensor(sound.samples).reshape({sound.num_channels, -1});
  if (sound.num_channels != num_channels) samples_CL = samples_CL.mean(0, /*keepdim=*/true).expand({num_channels, -1});
  return resample(samples_CL, sound.rate, rate);
}

}  // namespace burnish::data
