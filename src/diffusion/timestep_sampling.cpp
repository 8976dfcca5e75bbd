#include "diffusion/timestep_sampling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/choice.h"
#include "base/random_key.h"
#include "diffusion/quantiles.h"

namespace burnish::diffusion {
namespace {

/// Of the options' numbers, a share of draws or of noise, and the number of tokens.
using NoiseFunction = double (*)(const TimestepOptions&, double, double);

double uniform_share(const TimestepOptions&, double u, double) { return u; }
double sigmoid_share(const TimestepOptions& o, double u, double) { return sigmoid(o.sigmoid_scale * normal_quantile(u)); }
double resolution_share(const TimestepOptions&, double u, double tokens) {
  const double mean = 0.5 * std::log(256 * tokens / (512 * 512));
  return std::clamp(sigmoid(mean + 1.5 * normal_quantile(u)), sigmoid(-7.5), sigmoid(9));
}
double logsnr_share(const TimestepOptions& o, double u, double) { return sigmoid((o.logit_std * normal_quantile(u) - o.logit_mean) / 2); }
double logit_normal_share(const TimestepOptions& o, double u, double) { return sigmoid(o.logit_std * normal_quantile(u) - o.logit_mean); }
double mode_share(const TimestepOptions& o, double u, double) {
  const double sine = std::sin(std::numbers::pi * u / 2);
  return u - o.mode_scale * (sine * sine - u);
}
double cos_map_share(const TimestepOptions&, double u, double) { return 0.5 * (1 + std::tan(std::numbers::pi / 2 * (u - 0.5))); }

/// Returns what of the parabola lies below t.
double parabola_below(const TimestepOptions& o, double t) {
  const double centre = o.noising_bias + 0.5, w = o.noising_weight;
  const double reach = w > 0 ? std::sqrt(2 / w) : 1e9;  // where it comes down to 0
  const auto integral = [&](double x) { return 2 * x - w * std::pow(x - centre, 3) / 3; };
  const double low = std::clamp(centre - reach, 0.0, 1.0), high = std::clamp(centre + reach, 0.0, 1.0);
  return integral(std::clamp(t, low, high)) - integral(low);
}
double parabola_share(const TimestepOptions& o, double u, double) {
  return invert([&](double t) { return parabola_below(o, t); }, u * parabola_below(o, 1));
}

/// Returns what of the logistic curve lies below t.
double logistic_below(const TimestepOptions& o, double t) {
  const double centre = o.noising_bias + 0.5, w = o.noising_weight;
  const auto softplus = [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); };
  return w == 0 ? t / 2 : (softplus(w * (t - centre)) - softplus(-w * centre)) / w;
}
double logistic_share(const TimestepOptions& o, double u, double) {
  return invert([&](double t) { return logistic_below(o, t); }, u * logistic_below(o, 1));
}

double beta_share(const TimestepOptions& o, double u, double) {
  return invert([&](double t) { return beta_cdf(o.noising_weight, o.noising_bias, t); }, u);
}

double lognorm_blend_share(const TimestepOptions&, double u, double) {
  constexpr double kDeviation = 0.333, kBlend = 0.75, kKept = 750.0 / 751;
  const double furthest = normal_quantile(kKept);
  return invert(
      [&](double t) {
        const double lognormal = 1 - normal_cdf(furthest + std::log1p(-t) / kDeviation) / kKept;
        return kBlend * lognormal + (1 - kBlend) * t;
      },
      u);
}

double logit_normal_cut_share(const TimestepOptions&, double u, double) {
  constexpr double kMean = 1.09, kDeviation = 0.95, kCut = 0.95, kEven = 0.01;
  const auto below = [](double t) { return normal_cdf((std::log(t / (1 - t)) - kMean) / kDeviation); };
  return invert([&](double t) { return (1 - kEven) * below(kCut * t) / below(kCut) + kEven * t; }, u);
}

double by_option(const TimestepOptions& o, double t, double) { return static_shift(o.shift, t); }
template <int kMaxTokens, int kMaxMuPercent>
double by_tokens(const TimestepOptions&, double t, double tokens) {
  return exponential_shift(mu_of_tokens(tokens, 256, kMaxTokens, 0.5, kMaxMuPercent / 100.0), t);
}

struct Scheme {
  const char* name;
  NoiseFunction share;            ///< t by the share of draws that lie below it; null for a grid
  NoiseFunction shift = nullptr;  ///< what becomes of t; null where nothing does
  bool for_timesteps = false;
};

constexpr Scheme kSamplings[]{
    {"default", nullptr},
    {"diffsynth", nullptr},
    {"uniform", uniform_share, nullptr, true},
    {"sigmoid", sigmoid_share, nullptr, true},
    {"shift", sigmoid_share, by_option},
    {"flux_shift", sigmoid_share, by_tokens<4096, 115>},
    {"qwen_shift", sigmoid_share, by_tokens<8192, 90>},
    {"krea2_shift", sigmoid_share, by_tokens<6400, 115>},
    {"ideogram4_shift", resolution_share},
    {"logsnr", logsnr_share},
    {"sigma", uniform_share, by_option},
    {"logit_normal", logit_normal_share, by_option, true},
    {"mode", mode_share, by_option, true},
    {"heavy_tail", mode_share, by_option, true},
    {"cos_map", cos_map_share, by_option, true},
    {"inverted_parabola", parabola_share, by_option, true},
    {"logistic", logistic_share, by_option, true},
    {"beta", beta_share, by_option, true},
    {"lognorm_blend", lognorm_blend_share},
    {"logit_normal_cut", logit_normal_cut_share},
};

/// Numbers that functions of a scheme read.
constexpr std::pair<NoiseFunction, double TimestepOptions::*> kReads[]{
    {by_option, &TimestepOptions::shift},
    {sigmoid_share, &TimestepOptions::sigmoid_scale},
    {logsnr_share, &TimestepOptions::logit_mean},
    {logsnr_share, &TimestepOptions::logit_std},
    {logit_normal_share, &TimestepOptions::logit_mean},
    {logit_normal_share, &TimestepOptions::logit_std},
    {mode_share, &TimestepOptions::mode_scale},
    {parabola_share, &TimestepOptions::noising_weight},
    {parabola_share, &TimestepOptions::noising_bias},
    {logistic_share, &TimestepOptions::noising_weight},
    {logistic_share, &TimestepOptions::noising_bias},
    {beta_share, &TimestepOptions::noising_weight},
    {beta_share, &TimestepOptions::noising_bias},
};

const Scheme* find_scheme(const std::string& mode) {
  const auto* found = std::ranges::find(kSamplings, mode, [](const Scheme& scheme) { return std::string_view(scheme.name); });
  return found == std::end(kSamplings) ? nullptr : found;
}

const Scheme& scheme_of(const TimestepOptions& options) {
  const auto* found = find_scheme(options.mode);
  if (found == nullptr) unknown_choice("diffusion", "timestep_sampling", options.mode, timestep_samplings());
  return *found;
}

/// A scheme that has a density.
const Scheme& density_of(const TimestepOptions& options) {
  const auto& scheme = scheme_of(options);
  if (scheme.share == nullptr) config_error("diffusion", "timestep_sampling {} draws from a grid, and has no density", options.mode);
  return scheme;
}

/// Squeezed into the boundaries, and off the exact ends, where a target carries no signal or no noise and shifts divide by zero.
double within_boundaries(const TimestepOptions& options, double t) {
  const double squeezed = 1.0 - options.max_boundary + t * (options.max_boundary - options.min_boundary);
  return std::clamp(squeezed, 1e-5, 1.0 - 1e-5);
}

}  // namespace

std::vector<std::string> timestep_samplings() {
  std::vector<std::string> all;
  for (const auto& scheme : kSamplings) all.emplace_back(scheme.name);
  return all;
}

bool reads(const TimestepOptions& options, double TimestepOptions::*number) {
  const auto* scheme = find_scheme(options.mode);
  return scheme != nullptr && std::ranges::any_of(kReads, [&](const auto& read) {
           return read.second == number && read.first != nullptr && (read.first == scheme->share || read.first == scheme->shift);
         });
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

int index_at(const TimestepOptions& options, double share, int num_timesteps) {
  // The range [int(N min), int(N max)) has one index at least.
  const int begin = std::min(static_cast<int>(options.min_boundary * num_timesteps), num_timesteps - 1);
  const int end = std::max(static_cast<int>(options.max_boundary * num_timesteps), begin + 1);
  return std::clamp(begin + static_cast<int>(std::floor(share * (end - begin))), begin, end - 1);
}

namespace {

double untruncated(const TimestepOptions& options, double u, double tokens) {
  const auto& scheme = density_of(options);
  const double t = within_boundaries(options, scheme.share(options, u, tokens));
  return scheme.shift == nullptr ? t : scheme.shift(options, t, tokens);
}

/// The shares of draws below min_t and max_t.
std::pair<double, double> kept_draws(const TimestepOptions& options, double tokens) {
  const auto sigma = [&](double u) { return untruncated(options, u, tokens); };
  return {invert(sigma, options.min_t), invert(sigma, options.max_t)};
}

bool truncates(const TimestepOptions& options) { return options.min_t > 0 || options.max_t < 1; }

void check_numbers(const TimestepOptions& o) {
  const auto positive = [](const char* name, double value) {
    if (!(value > 0) || !std::isfinite(value)) config_error("diffusion", "{} must be a positive number, not {}", name, value);
  };
  positive("discrete_flow_shift", o.shift);
  positive("sigmoid_scale", o.sigmoid_scale);
  positive("logit_std", o.logit_std);
  const bool is_mode = o.mode == "mode" || o.mode == "heavy_tail";
  if (const double most = 2 / (std::numbers::pi - 2); is_mode && !(o.mode_scale >= -1 && o.mode_scale <= most))
    config_error("diffusion", "mode_scale must lie between -1 and {:.3f}, not {}: beyond, some sigmas are out of range", most,
                 o.mode_scale);
  if (o.mode == "beta" && !(o.noising_weight > 0 && o.noising_bias > 0))
    config_error("diffusion",
                 "timestep_sampling beta takes its a from noising_weight and its b from noising_bias, both above 0, not {} and {}",
                 o.noising_weight, o.noising_bias);
  if (o.mode == "inverted_parabola" && !(parabola_below(o, 1) > 0))
    config_error("diffusion", "the parabola of noising_weight {} and noising_bias {} is 0 everywhere between 0 and 1", o.noising_weight,
                 o.noising_bias);
}

/// Checks the options for a picture of 1024 by 1024.
void check_truncation(const TimestepOptions& o) {
  if (!(o.min_t >= 0 && o.min_t < o.max_t && o.max_t <= 1))
    config_error("diffusion", "min_t and max_t must satisfy 0 <= min < max <= 1, not {} and {}", o.min_t, o.max_t);
  if (!truncates(o)) return;
  if (scheme_of(o).share == nullptr)
    config_error("diffusion",
                 "min_t and max_t cut out of a continuous distribution, and timestep_sampling {} is a grid; choose another, or set "
                 "min_timestep_boundary and max_timestep_boundary",
                 o.mode);
  const auto [low, high] = kept_draws(o, 4096);
  if (high - low < 1e-6)
    config_error("diffusion", "timestep_sampling {} has next to nothing between min_t {} and max_t {}; widen them, or choose another",
                 o.mode, o.min_t, o.max_t);
}

}  // namespace

void check(const TimestepOptions& options) {
  scheme_of(options);
  const double low = options.min_boundary, high = options.max_boundary;
  if (!(low >= 0 && low < high && high <= 1)) {
    config_error("diffusion", "timestep boundaries must satisfy 0 <= min < max <= 1, not {} and {}", low, high);
  }
  check_numbers(options);
  check_truncation(options);
}

std::vector<std::string> schemes_for_timesteps() {
  std::vector<std::string> names;
  for (const auto& scheme : kSamplings) {
    if (scheme.for_timesteps) names.emplace_back(scheme.name);
  }
  return names;
}

double mu_of_tokens(double num_image_tokens, double min_tokens, double max_tokens, double min_mu, double max_mu) {
  const double slope = (max_mu - min_mu) / (max_tokens - min_tokens);
  return slope * num_image_tokens + (min_mu - slope * min_tokens);
}

double exponential_shift(double mu, double t) { return std::exp(mu) / (std::exp(mu) + (1.0 / t - 1.0)); }

double static_shift(double s, double t) { return s * t / (1.0 + (s - 1.0) * t); }

void stretch_to(double terminal, std::vector<double>& sigmas) {
  if (sigmas.back() >= 1) return;
  const double scale = (1.0 - sigmas.back()) / (1.0 - terminal);
  for (double& sigma : sigmas) sigma = 1.0 - (1.0 - sigma) / scale;
}

double noise_share(const TimestepOptions& options, double u, int64_t num_image_tokens) {
  return density_of(options).share(options, u, static_cast<double>(num_image_tokens));
}

double sigma_at(const TimestepOptions& options, double u, int64_t num_image_tokens) {
  const auto tokens = static_cast<double>(num_image_tokens);
  if (!truncates(options)) return untruncated(options, u, tokens);
  const auto [low, high] = kept_draws(options, tokens);
  return std::clamp(untruncated(options, low + (high - low) * u, tokens), options.min_t, options.max_t);
}

double sample_sigma(const TimestepOptions& options, uint64_t key, int64_t num_image_tokens, const std::vector<double>& grid) {
  const double u = CounterRandom(key).uniform();
  if (scheme_of(options).share == nullptr) return grid[static_cast<size_t>(index_at(options, u, static_cast<int>(grid.size())))];
  return sigma_at(options, u, num_image_tokens);
}

}  // namespace burnish::diffusion
