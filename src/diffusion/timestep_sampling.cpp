#include "diffusion/timestep_sampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/random_key.h"
#include "base/text.h"

namespace burnish::diffusion {

namespace {

const std::vector<std::string> kModes{"diffsynth", "uniform", "sigmoid", "shift", "flux_shift", "logit_normal", "mode"};

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// Keeps draws off the exact ends, where a target carries no signal or no noise.
double inside(double sigma) { return std::clamp(sigma, 1e-5, 1.0 - 1e-5); }

double exp_shift(double t, double mu) { return std::exp(mu) / (std::exp(mu) + 1.0 / inside(t) - 1.0); }

/// The line through (256 tokens, 0.5) and (4096 tokens, 1.15).
double resolution_mu(int64_t num_image_tokens) { return 0.5 + (static_cast<double>(num_image_tokens) - 256.0) * (1.15 - 0.5) / (4096.0 - 256.0); }

double draw(const TimestepOptions& o, CounterRandom& random, int64_t num_image_tokens) {
  if (o.mode == "uniform") return random.uniform();
  if (o.mode == "sigmoid") return sigmoid(o.sigmoid_scale * random.normal());
  if (o.mode == "shift") {
    auto t = sigmoid(o.sigmoid_scale * random.normal());
    return o.shift * t / (1.0 + (o.shift - 1.0) * t);
  }
  if (o.mode == "flux_shift") return exp_shift(sigmoid(o.sigmoid_scale * random.normal()), resolution_mu(num_image_tokens));
  if (o.mode == "logit_normal") return sigmoid(o.logit_mean + o.logit_std * random.normal());
  auto u = random.uniform();  // SD3's mode sampling
  auto c = std::cos(std::numbers::pi / 2.0 * u);
  return 1.0 - u - o.mode_scale * (c * c - 1.0 + u);
}

}  // namespace

void check(const TimestepOptions& o) {
  if (std::find(kModes.begin(), kModes.end(), o.mode) == kModes.end()) {
    auto near = nearest_name(o.mode, kModes);
    config_error("diffusion", "timestep_sampling '{}' is not known{}; choose one of {}", o.mode, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near), join(kModes));
  }
  if (!(o.min_boundary >= 0 && o.min_boundary < o.max_boundary && o.max_boundary <= 1)) {
    config_error("diffusion", "timestep boundaries must satisfy 0 <= min < max <= 1, not {} and {}", o.min_boundary, o.max_boundary);
  }
}

double sample_sigma(const TimestepOptions& o, uint64_t key, int64_t num_image_tokens) {
  CounterRandom random(key);
  if (o.mode == "diffsynth") {
    const auto& grid = diffsynth_grid();
    auto size = static_cast<double>(grid.size());
    auto first = static_cast<int64_t>(o.min_boundary * size), last = std::max(static_cast<int64_t>(o.max_boundary * size), first + 1);
    return grid[static_cast<size_t>(first) + random.below(static_cast<uint64_t>(last - first))];
  }
  // Boundaries count from pure noise: the share [min, max] of the draws, by rank, that lie nearest to sigma 1.
  while (true) {
    auto sigma = draw(o, random, num_image_tokens);
    if (sigma >= 1.0 - o.max_boundary && sigma <= 1.0 - o.min_boundary) return inside(sigma);
  }
}

const std::vector<double>& diffsynth_grid() {
  static const std::vector<double> grid = [] {
    constexpr int kSteps = 1000;
    constexpr double kShift = 3.0, kLast = 0.003 / 1.002;
    std::vector<double> sigmas;
    for (int i = 0; i < kSteps; ++i) {
      auto u = 1.0 + (kLast - 1.0) * i / (kSteps - 1);
      sigmas.push_back(kShift * u / (1.0 + (kShift - 1.0) * u));
    }
    return sigmas;
  }();
  return grid;
}

}  // namespace burnish::diffusion
