#pragma once
#include <string>
#include <vector>

#include "diffusion/training_grid.h"

namespace burnish::diffusion {

/// Returns the words that a scheme may be.
const std::vector<std::string>& loss_weightings();
/// Throws a config Error when `scheme` is unknown.
void check_loss_weighting(const std::string& scheme);

/// The factor on a sample's loss at `sigma` in (0, 1]; a config Error when `scheme` is unknown or not for sigma (debiased, which
/// discrete processes have). default is diffsynth.
///   uniform     1
///   diffsynth   TrainingGrid::loss_weight
///   sigma_sqrt  sigma^-2 (arXiv 2403.03206, as in sd-scripts)
///   sigma_squared  sigma^2, which makes the error of a velocity that of clean latents
///   cosmap      2 / (pi (1 - 2 sigma + 2 sigma^2)) (arXiv 2403.03206)
double loss_weight(const std::string& scheme, double sigma, const TrainingGrid& grid);

}  // namespace burnish::diffusion
