#include "diffusion/timestep_sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/choice.h"
#include "base/random_key.h"

namespace burnish::diffusion {
namespace {

constexpr int kNumTimesteps = 1000;
const std::array<std::string, 8> kModes = {"default", "diffsynth", "uniform", "sigmoid", "shift", "flux_shift", "logit_normal", "mode"};

double discrete_sigma(const TimestepOptions& options, double share) {
  return static_shift(options.shift, 1.0 - static_cast<double>(index_at(options, share, kNumTimesteps)) / kNumTimesteps);
}

/// Squeezed into the boundaries, and off the exact ends, where a target carries no signal or no noise and shifts divide by zero.
double within_boundaries(const TimestepOptions& options, double t) {
  const double squeezed = 1.0 - options.max_boundary + t * (options.max_boundary - options.min_boundary);
  return std::clamp(squeezed, 1e-5, 1.0 - 1e-5);
}

}  // namespace

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

int index_at(const TimestepOptions& options, double share, int num_timesteps) {
  // The range [int(N min), int(N max)) has one index at least.
  const int begin = std::min(static_cast<int>(options.min_boundary * num_timesteps), num_timesteps - 1);
  const int end = std::max(static_cast<int>(options.max_boundary * num_timesteps), begin + 1);
  return std::clamp(begin + static_cast<int>(std::floor(share * (end - begin))), begin, end - 1);
}

void check(const TimestepOptions& options) {
  if (std::find(kModes.begin(), kModes.end(), options.mode) == kModes.end()) {
    unknown_choice("diffusion", "timestep_sampling", options.mode, kModes);
  }
  const double low = options.min_boundary, high = options.max_boundary;
  if (!(low >= 0 && low < high && high <= 1)) {
    config_error("diffusion", "timestep boundaries must satisfy 0 <= min < max <= 1, not {} and {}", low, high);
  }
  const auto positive = [](const char* name, double value) {
    if (!(value > 0) || !std::isfinite(value)) config_error("diffusion", "{} must be a positive number, not {}", name, value);
  };
  positive("discrete_flow_shift", options.shift);
  positive("sigmoid_scale", options.sigmoid_scale);
  positive("logit_std", options.logit_std);
}

double mu_of_tokens(double num_image_tokens, double min_tokens, double max_tokens, double min_mu, double max_mu) {
  const double slope = (max_mu - min_mu) / (max_tokens - min_tokens);
  return slope * num_image_tokens + (min_mu - slope * min_tokens);
}

double exponential_shift(double mu, double t) { return std::exp(mu) / (std::exp(mu) + (1.0 / t - 1.0)); }

double static_shift(double s, double t) { return s * t / (1.0 + (s - 1.0) * t); }

double sample_sigma(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens) {
  CounterRandom random(key);
  const std::string& mode = options.mode;
  if (mode == "diffsynth" || mode == "default") return diffsynth_grid()[index_at(options, random.uniform(), kNumTimesteps)];
  if (mode == "logit_normal") return discrete_sigma(options, sigmoid(options.logit_mean + options.logit_std * random.normal()));
  if (mode == "mode") {
    const double u = random.uniform();
    const double c = std::cos(std::numbers::pi * u / 2);
    return discrete_sigma(options, 1.0 - u - options.mode_scale * (c * c - 1.0 + u));
  }
  if (mode == "uniform") return within_boundaries(options, random.uniform());
  const double t = within_boundaries(options, sigmoid(options.sigmoid_scale * random.normal()));
  if (mode == "sigmoid") return t;
  if (mode == "shift") return static_shift(options.shift, t);
  if (mode == "flux_shift") return exponential_shift(mu_of_tokens(static_cast<double>(num_image_tokens), 256, 4096, 0.5, 1.15), t);
  unknown_choice("diffusion", "timestep_sampling", mode, kModes);
}

std::vector<double> diffsynth_grid(int64_t num_steps) {
  constexpr double kShift = 3.0, kLast = 0.003 / 1.002;
  std::vector<double> sigmas;
  for (int64_t i = 0; i < num_steps; ++i) {
    auto share = num_steps > 1 ? static_cast<double>(i) / static_cast<double>(num_steps - 1) : 0.0;
    sigmas.push_back(static_shift(kShift, 1.0 + (kLast - 1.0) * share));
  }
  return sigmas;
}

const std::vector<double>& diffsynth_grid() {
  static const auto grid = diffsynth_grid(kNumTimesteps);
  return grid;
}

}  // namespace burnish::diffusion
