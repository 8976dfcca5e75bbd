#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace burnish::diffusion {

/// Says how training picks sigma, the share of noise in (0, 1]: 1 is pure noise. Everything is fp64, and sigma is continuous: no scheme but
/// diffsynth's rounds it to one of 1,000 levels, as programs do that look it up in a schedule.
///
/// A scheme is the density of a share t of noise, and for some a shift of t towards noise, shift_s(t) = s t / (1 + (s-1) t). With a uniform
/// u and a standard normal n, both from one number, the first column draws t and the second shifts it:
///   uniform            u
///   sigmoid            sigmoid(sigmoid_scale n)
///   shift              sigmoid(sigmoid_scale n)           s = `shift`
///   flux_shift         sigmoid(sigmoid_scale n)           s = e^mu, mu on the line through (256 tokens, 0.5) and (4096, 1.15)
///   qwen_shift         sigmoid(sigmoid_scale n)           s = e^mu, mu through (256, 0.5) and (8192, 0.9)
///   krea2_shift        sigmoid(sigmoid_scale n)           s = e^mu, mu through (256, 0.5) and (6400, 1.15)
///   ideogram4_shift    sigmoid(ln(pixels / 512^2) / 2 + 1.5 n), within sigmoid(-7.5) and sigmoid(9); a token has 16 x 16 pixels
///   logsnr             sigmoid(-(logit_mean + logit_std n) / 2): normal in the log of the signal-to-noise ratio (arXiv 2411.14793)
///   sigma              u                                  s = `shift`
///   logit_normal       sigmoid(-(logit_mean + logit_std n))     s = `shift`; a larger logit_mean is less noise
///   mode, heavy_tail   u - mode_scale (sin^2(pi u / 2) - u)     s = `shift`
///   cos_map            density 2 / (pi (1 - 2t + 2t^2))   s = `shift`
///   inverted_parabola  density max(0, 2 - noising_weight (t - noising_bias - 1/2)^2)      s = `shift`
///   logistic           density sigmoid(noising_weight (t - noising_bias - 1/2))           s = `shift`
///   beta               density t^(noising_weight - 1) (1 - t)^(noising_bias - 1)          s = `shift`
///   lognorm_blend      a quarter u, else 1 - e^(0.333 n) / M, cut where it falls below 0; M is the quantile at 750/751
///   logit_normal_cut   a hundredth u, else sigmoid(1.09 + 0.95 n) where that is below 0.95, over 0.95
///   diffsynth          a uniform index into DiffSynth-Studio's grid of the family (training_grid.h)
/// Sources: uniform to flux_shift, sigma, logit_normal and mode are sd-scripts' (library/flux_train_utils.py), the last two its
/// `weighting_scheme`s, after SD3 (arXiv 2403.03206); qwen_shift to logsnr are musubi-tuner's (training/timesteps.py and the trainer);
/// heavy_tail to beta OneTrainer's `timestep_distribution` (modelSetup/mixin/ModelSetupNoiseMixin.py), where logistic is SIGMOID;
/// lognorm_blend is ai-toolkit's (samplers/custom_flowmatch_sampler.py), where M is the largest of 750 draws; logit_normal_cut is the last
/// stage of MOSS-Image's training as its report has it.
/// A process may know some of these only; "default" is its own: diffsynth where sigma is drawn.
struct TimestepOptions {
  std::string mode = "default";
  double shift = 3.0;  ///< sd-scripts' discrete_flow_shift, OneTrainer's timestep_shift
  double sigmoid_scale = 1.0;
  double logit_mean = 0.0, logit_std = 1.0;
  double mode_scale = 1.29;
  /// Shares of the schedule before it is shifted, counted from pure noise as DiffSynth-Studio does: 0 to 0.4 trains the noisiest 40 %.
  /// Discrete modes draw from that range of indices; continuous ones squeeze t linearly into [1 - max, 1 - min].
  double min_boundary = 0.0, max_boundary = 1.0;
  double noising_weight = 0.0, noising_bias = 0.0;  ///< OneTrainer's; beta's a and b
  /// The stretch of sigma's distribution that is drawn, cut after all else; its shape stays within it (diffusion-pipe's min_t and max_t).
  double min_t = 0.0, max_t = 1.0;
};

/// Throws a config Error when the mode is unknown (the nearest is named), the boundaries or min_t and max_t are not 0 <= min < max <= 1, a
/// number is outside of what its scheme takes, or nothing of the distribution lies between min_t and max_t.
void check(const TimestepOptions& options);

/// Returns the words that a mode may be.
std::vector<std::string> timestep_samplings();

/// Tells whether the scheme of the options reads one of their numbers, as &TimestepOptions::shift; no unknown scheme does.
bool reads(const TimestepOptions& options, double TimestepOptions::*number);

/// The index that a share in [0, 1) points at within the boundaries of a grid of `num_timesteps`, counted from pure noise.
int index_at(const TimestepOptions& options, double share, int num_timesteps);

/// Computes 1 / (1 + exp(-x)).
double sigmoid(double x);

/// Names of the schemes that draw a share of noise without knowing of sigma, so that discrete timesteps can be drawn with them.
std::vector<std::string> schemes_for_timesteps();

/// The share t of noise below which a share u of all draws lies, before boundaries and shift. A config Error for diffsynth, a grid.
/// `num_image_tokens`, the length of the packed latent sequence, matters to some schemes.
double noise_share(const TimestepOptions& options, double u, int64_t num_image_tokens);

/// The sigma below which a share u of all draws lies: the quantile function of what is trained on.
double sigma_at(const TimestepOptions& options, double u, int64_t num_image_tokens);

/// The sigma of one sample, a function of the key alone; exactly 1 only where it is drawn from `grid`, that of diffsynth.
double sample_sigma(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens, const std::vector<double>& grid);

/// mu of the exponential shift: linear in the number of image tokens through (min_tokens, min_mu) and (max_tokens, max_mu).
double mu_of_tokens(double num_image_tokens, double min_tokens, double max_tokens, double min_mu, double max_mu);

/// e^mu / (e^mu + 1/t - 1), for t in (0, 1].
double exponential_shift(double mu, double t);

/// s t / (1 + (s-1) t).
double static_shift(double s, double t);

/// Stretches falling sigmas away from 1 so that the last one is `terminal`. A single one at 1 stays there.
void stretch_to(double terminal, std::vector<double>& sigmas);

}  // namespace burnish::diffusion
