#include "models/families/ltx2/places.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <numbers>
#include <vector>

namespace burnish::models::ltx2 {

namespace {

/// Samples a second and samples of a hop of the spectrogram, and hops of a latent of sound, of which the first stands for one.
constexpr double kSamplesASecond = 16000, kSamplesAHop = 160;
constexpr int64_t kHopsALatent = 4;

/// The middles of steps of `size`, of which the first is one long: [L].
at::Tensor middles_in_time(int64_t count, int64_t size, const at::TensorOptions& options,
                           const std::function<at::Tensor(at::Tensor)>& in_seconds) {
  auto begins = at::arange(count, options.dtype(at::kFloat)) * static_cast<double>(size) + static_cast<double>(1 - size);
  auto ends = begins + static_cast<double>(size);
  return (in_seconds(begins.clamp_min(0)) + in_seconds(ends.clamp_min(0))) / 2;
}

/// Places [B, 3, L] of the tokens of a grid whose frames have these times, each side of a latent being so many times as long.
at::Tensor places_at(const Grid& grid, const at::Tensor& times_BF, int64_t scale) {
  auto along = [&](int64_t count) { return (at::arange(count, times_BF.options()) + 0.5) * static_cast<double>(kPixelsALatent * scale); };
  auto spread = [&](const at::Tensor& middles, at::IntArrayRef shape) {
    return middles.view(shape).expand({times_BF.size(0), grid.num_frames, grid.rows, grid.columns}).flatten(1);
  };
  return at::stack({spread(times_BF, {-1, grid.num_frames, 1, 1}), spread(along(grid.rows), {1, 1, grid.rows, 1}),
                    spread(along(grid.columns), {1, 1, 1, grid.columns})},
                   1);
}

}  // namespace

at::Tensor places_of_frames(const Grid& grid, const at::Tensor& rate_B) { return places_of_reference(grid, rate_B, 1); }

at::Tensor places_of_reference(const Grid& grid, const at::Tensor& rate_B, int64_t scale) {
  const auto rate_B1 = rate_B.to(at::kFloat).unsqueeze(1);
  return places_at(grid,
                   middles_in_time(grid.num_frames, kFramesALatent, rate_B1.options(),
                                   [&](const at::Tensor& frames) { return frames.unsqueeze(0) / rate_B1; }),
                   scale);
}

// As a latent of a clip's later frames stands for eight of them, so does each of several; a single one is one frame.
at::Tensor places_of_given(const Grid& grid, const at::Tensor& rate_B, int64_t number) {
  const auto rate_B1 = rate_B.to(at::kFloat).unsqueeze(1);
  const auto size = static_cast<double>(grid.num_frames == 1 ? 1 : kFramesALatent);
  const auto begins = at::arange(grid.num_frames, rate_B1.options()) * size + static_cast<double>(number);
  return places_at(grid, (begins / rate_B1 + (begins + size) / rate_B1) / 2, 1);
}

at::Tensor places_of_sound(int64_t num_latents, const at::TensorOptions& options) {
  return middles_in_time(num_latents, kHopsALatent, options, [](const at::Tensor& hops) { return hops * kSamplesAHop / kSamplesASecond; })
      .view({1, 1, -1});
}

Turns turns_of(const at::Tensor& places_BAL, int64_t width, const PlaceSizes& sizes) {
  const auto num_axes = places_BAL.size(1), count = width / (2 * num_axes), num_still = width / 2 - count * num_axes;
  const auto wide = places_BAL.options().dtype(at::kDouble);
  const auto frequencies = (at::pow(sizes.theta, at::linspace(0, 1, count, wide)) * (std::numbers::pi / 2)).to(at::kFloat);
  const double extents[] = {static_cast<double>(sizes.seconds), static_cast<double>(sizes.height), static_cast<double>(sizes.width)};
  std::vector<at::Tensor> axes;
  for (int64_t axis = 0; axis < num_axes; ++axis) {
    const auto share_BL = places_BAL.select(1, axis).to(at::kFloat) / extents[axis];
    axes.push_back((share_BL * 2 - 1).unsqueeze(-1) * frequencies);
  }
  const auto angles_BLP = at::stack(axes, -1).flatten(2);
  auto cos = angles_BLP.cos(), sin = angles_BLP.sin();
  if (num_still == 0) return {cos, sin};
  const std::vector<int64_t> still{cos.size(0), cos.size(1), num_still};
  return {at::cat({at::ones(still, cos.options()), cos}, -1), at::cat({at::zeros(still, cos.options()), sin}, -1)};
}

}  // namespace burnish::models::ltx2
