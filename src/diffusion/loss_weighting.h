#pragma once
#include <string>

namespace burnish::diffusion {

/// A config Error when `scheme` is unknown.
void check_loss_weighting(const std::string& scheme);

/// The factor on a sample's loss at `sigma`.
/// uniform: 1. diffsynth: DiffSynth-Studio's bell around sigma 0.5 (mean 1 over its grid). sigma_sqrt and cosmap: SD3
/// (arXiv 2403.03206), as in sd-scripts.
double loss_weight(const std::string& scheme, double sigma);

}  // namespace burnish::diffusion
