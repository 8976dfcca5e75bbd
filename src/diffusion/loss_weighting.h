#pragma once
#include <string>

namespace burnish::diffusion {

/// Throws a config Error when `scheme` is unknown.
void check_loss_weighting(const std::string& scheme);

/// The factor on a sample's loss at `sigma` in (0, 1]; a config Error when `scheme` is unknown or not for sigma (debiased, which
/// discrete processes have). default is diffsynth.
///   uniform     1
///   diffsynth   exp(-2 (sigma - 0.5)^2), less its smallest value on diffsynth_grid(), scaled to mean 1 over that grid: zero at 1
///   sigma_sqrt  sigma^-2 (arXiv 2403.03206, as in sd-scripts)
///   cosmap      2 / (pi (1 - 2 sigma + 2 sigma^2)) (the same)
double loss_weight(const std::string& scheme, double sigma);

}  // namespace burnish::diffusion
