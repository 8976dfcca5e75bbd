#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::diffusion {

/// How training picks sigma, the share of noise in (0, 1] (1 is pure noise). n is a standard normal, u a uniform draw, and
/// shift_s(t) = s t / (1 + (s-1) t).
/// A process may know some of these only; "default" is its own: diffsynth where sigma is drawn.
///   diffsynth     a uniform index into DiffSynth-Studio's grid (diffsynth_grid below)
///   uniform       u
///   sigmoid       t = 1 / (1 + exp(-sigmoid_scale n))
///   shift         sigmoid's t, then shift_s with s = `shift`
///   flux_shift    sigmoid's t, then e^mu / (e^mu + 1/t - 1), mu on the line through (256 tokens, 0.5) and (4096 tokens, 1.15)
///   logit_normal  the share 1 / (1 + exp(-(logit_mean + logit_std n))) into 1,000 sigmas shifted by `shift`, noisiest first
///   mode          the share 1 - u - mode_scale (cos^2(pi u / 2) - 1 + u) into the same sigmas
/// All but diffsynth are sd-scripts' (library/flux_train_utils.py), where the last two are `weighting_scheme`s (arXiv 2403.03206) that
/// pick an index from the noisy end: a larger logit_mean means less noise.
struct TimestepOptions {
  std::string mode = "default";
  double shift = 3.0;  ///< sd-scripts' discrete_flow_shift: of shift, logit_normal and mode
  double sigmoid_scale = 1.0;
  double logit_mean = 0.0, logit_std = 1.0;
  double mode_scale = 1.29;
  /// Shares of the schedule before it is shifted, counted from pure noise as DiffSynth-Studio does: 0 to 0.4 trains the noisiest 40 %.
  /// Discrete modes draw from that range of indices; continuous ones squeeze t linearly into [1 - max, 1 - min].
  double min_boundary = 0.0, max_boundary = 1.0;
};

/// A config Error when the mode is unknown (the nearest is named), the boundaries are not 0 <= min < max <= 1, or a shift, scale or
/// standard deviation is not positive.
void check(const TimestepOptions& options);

/// The index that a share in [0, 1) points at within the boundaries of a grid of `num_timesteps`, counted from pure noise.
int index_at(const TimestepOptions& options, double share, int num_timesteps);

/// 1 / (1 + exp(-x)).
double sigmoid(double x);

/// The sigma of one sample, a function of the key alone; exactly 1 only in the discrete modes. `num_image_tokens`, the length of the
/// packed latent sequence, matters to `flux_shift` only.
double sample_sigma(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens);

/// The training grid of DiffSynth-Studio's most used template: 1,000 sigmas, shift 3, from 1 down to about 0.0089.
const std::vector<double>& diffsynth_grid();
/// The same template with another number of steps, both ends included; a single step is at 1.
std::vector<double> diffsynth_grid(int64_t num_steps);

/// mu of the exponential shift: linear in the number of image tokens through (min_tokens, min_mu) and (max_tokens, max_mu).
double mu_of_tokens(double num_image_tokens, double min_tokens, double max_tokens, double min_mu, double max_mu);

/// e^mu / (e^mu + 1/t - 1), for t in (0, 1].
double exponential_shift(double mu, double t);

/// s t / (1 + (s-1) t).
double static_shift(double s, double t);

}  // namespace burnish::diffusion
