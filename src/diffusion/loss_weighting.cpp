#include "diffusion/loss_weighting.h"

#include <algorithm>
#include <numbers>

#include "base/choice.h"

namespace burnish::diffusion {

namespace {

const std::vector<std::string> kSchemes{"default", "diffsynth", "uniform", "sigma_sqrt", "sigma_squared", "cosmap", "debiased"};

}  // namespace

const std::vector<std::string>& loss_weightings() { return kSchemes; }

void check_loss_weighting(const std::string& scheme) {
  if (std::find(kSchemes.begin(), kSchemes.end(), scheme) == kSchemes.end()) {
    unknown_choice("diffusion", "loss_weighting", scheme, kSchemes);
  }
}

double loss_weight(const std::string& scheme, double sigma, const TrainingGrid& grid) {
  if (scheme == "uniform") return 1.0;
  if (scheme == "diffsynth" || scheme == "default") return grid.loss_weight(sigma);
  if (scheme == "sigma_sqrt") return 1.0 / (sigma * sigma);
  if (scheme == "sigma_squared") return sigma * sigma;
  if (scheme == "cosmap") return 2.0 / (std::numbers::pi * (1.0 - 2.0 * sigma + 2.0 * sigma * sigma));
  if (scheme == "debiased")
    config_error("diffusion", "loss_weighting debiased weighs timesteps by their signal-to-noise ratio; choose another for sigma");
  unknown_choice("diffusion", "loss_weighting", scheme, kSchemes);
}

}  // namespace burnish::diffusion
