#include "diffusion/loss_weighting.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/choice.h"
#include "diffusion/timestep_sampling.h"

namespace burnish::diffusion {

namespace {

const std::vector<std::string> kSchemes{"default", "diffsynth", "uniform", "sigma_sqrt", "cosmap", "debiased"};

double bell(double sigma) {
  auto z = sigma - 0.5;
  return std::exp(-2.0 * z * z);
}

/// The grid's smallest bell value, and the sum of what is left above it.
struct BellScale {
  double lowest = 1, sum = 0;
};

const BellScale& bell_scale() {
  static const BellScale scale = [] {
    BellScale s;
    for (auto sigma : diffsynth_grid()) s.lowest = std::min(s.lowest, bell(sigma));
    for (auto sigma : diffsynth_grid()) s.sum += bell(sigma) - s.lowest;
    return s;
  }();
  return scale;
}

}  // namespace

void check_loss_weighting(const std::string& scheme) {
  if (std::find(kSchemes.begin(), kSchemes.end(), scheme) == kSchemes.end()) {
    unknown_choice("diffusion", "loss_weighting", scheme, kSchemes);
  }
}

double loss_weight(const std::string& scheme, double sigma) {
  if (scheme == "uniform") return 1.0;
  if (scheme == "diffsynth" || scheme == "default")
    return (bell(sigma) - bell_scale().lowest) * static_cast<double>(diffsynth_grid().size()) / bell_scale().sum;
  if (scheme == "sigma_sqrt") return 1.0 / (sigma * sigma);
  if (scheme == "cosmap") return 2.0 / (std::numbers::pi * (1.0 - 2.0 * sigma + 2.0 * sigma * sigma));
  if (scheme == "debiased")
    config_error("diffusion", "loss_weighting debiased weighs timesteps by their signal-to-noise ratio; choose another for sigma");
  unknown_choice("diffusion", "loss_weighting", scheme, kSchemes);
}

}  // namespace burnish::diffusion
