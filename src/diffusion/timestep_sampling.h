#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::diffusion {

/// How training picks sigma, the share of noise in [0, 1] (1 is pure noise). Names as in kohya's sd-scripts and DiffSynth-Studio.
struct TimestepOptions {
  std::string mode = "diffsynth";  ///< diffsynth, uniform, sigmoid, shift, flux_shift, logit_normal, mode
  double shift = 3.0;              ///< of mode `shift` (kohya's discrete_flow_shift)
  double sigmoid_scale = 1.0;
  double logit_mean = 0.0, logit_std = 1.0;
  double mode_scale = 1.29;
  double min_boundary = 0.0, max_boundary = 1.0;  ///< share of the schedule, counted from pure noise as DiffSynth-Studio does
};

/// A config Error when the mode is unknown (the nearest is named) or the boundaries are not 0 <= min < max <= 1.
void check(const TimestepOptions& options);

/// The sigma of one sample. `key` names the draw; `num_image_tokens` feeds the resolution-dependent shift of `flux_shift`.
/// Formulas: sd-scripts library/flux_train_utils.py; SD3 (arXiv 2403.03206) for logit_normal and mode; DiffSynth-Studio's FLUX.1
/// grid for diffsynth.
double sample_sigma(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens);

/// DiffSynth-Studio's training grid for FLUX.1: 1,000 sigmas, shift 3, from 1 down to about 0.0089.
const std::vector<double>& diffsynth_grid();

}  // namespace burnish::diffusion
