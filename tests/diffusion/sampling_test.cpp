#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <set>

#include "base/error.h"
#include "diffusion/loss_weighting.h"
#include "diffusion/timestep_sampling.h"
#include "diffusion/training_grid.h"

using namespace burnish;
using namespace burnish::diffusion;

namespace {

const TrainingGrid kGrid{{}};

std::vector<double> draw(const TimestepOptions& options, int count, int64_t tokens = 1024) {
  std::vector<double> sigmas;
  for (int key = 0; key < count; ++key) sigmas.push_back(sample_sigma(options, key, tokens, kGrid.sigmas()));
  return sigmas;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

TimestepOptions sampled_by(const std::string& mode) {
  TimestepOptions options;
  options.mode = mode;
  return options;
}

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(TrainingGrid, HasTheFiguresOfTheTemplateOfFlux) {
  const std::vector<double>& grid = kGrid.sigmas();
  ASSERT_EQ(grid.size(), 1000u);
  EXPECT_EQ(grid.front(), 1.0);
  EXPECT_NEAR(grid[500], 0.751, 1e-3);
  EXPECT_NEAR(grid.back(), 0.00893, 5e-6);
  EXPECT_NEAR(mean(grid), 0.678, 5e-4);
  double peak = 0, sum = 0;
  for (const double sigma : grid) {
    const double weight = loss_weight("diffsynth", sigma, kGrid);
    peak = std::max(peak, weight), sum += weight;
  }
  EXPECT_NEAR(peak, 1.794, 5e-4);
  EXPECT_NEAR(sum, 1000, 1e-9);
  EXPECT_EQ(loss_weight("diffsynth", 1.0, kGrid), 0.0);
  EXPECT_NEAR(loss_weight("diffsynth", 0.5, kGrid), peak, 1e-5);
}

TEST(LossWeight, ClosedForms) {
  EXPECT_EQ(loss_weight("uniform", 0.3, kGrid), 1.0);
  EXPECT_DOUBLE_EQ(loss_weight("sigma_sqrt", 0.5, kGrid), 4.0);
  EXPECT_DOUBLE_EQ(loss_weight("sigma_squared", 0.5, kGrid), 0.25);
  EXPECT_DOUBLE_EQ(loss_weight("cosmap", 0.5, kGrid), 4.0 / std::numbers::pi);
  EXPECT_THAT(refusal([] { loss_weight("bell", 0.5, kGrid); }), testing::HasSubstr("cosmap"));
  EXPECT_THAT(refusal([] { check_loss_weighting("difsynth"); }), testing::HasSubstr("did you mean \"diffsynth\"?"));
}

namespace {

using Cdf = std::function<double(double)>;

double logit(double t) { return std::log(t / (1 - t)); }
double phi(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

/// The share below t of a density over [0, 1] that need not be scaled, by Simpson's rule.
Cdf integral_of(const std::function<double(double)>& density) {
  auto below = [density](double t) {
    constexpr int kParts = 2000;
    double sum = density(0) + density(t);
    for (int i = 1; i < kParts; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(t * i / kParts);
    return sum * t / kParts / 3;
  };
  return [below, all = below(1)](double t) { return below(t) / all; };
}

/// A scheme with its distribution function as its formula says.
struct Case {
  TimestepOptions options;
  Cdf share;         ///< of draws whose t, before any shift, lies below
  double shift = 1;  ///< s of shift_s
};

constexpr int64_t kTokens = 3000;

double e_to_mu(double tokens, double last, double mu) { return std::exp(0.5 + (tokens - 256) * (mu - 0.5) / (last - 256)); }

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](const std::string& mode, TimestepOptions options, const Cdf& share, double shift) {
    options.mode = mode;
    all.push_back({options, share, shift});
  };
  const Cdf line = [](double t) { return t; }, scaled = [](double t) { return phi(logit(t) / 1.7); };
  add("uniform", {}, line, 1);
  add("sigmoid", {.sigmoid_scale = 1.7}, scaled, 1);
  add("shift", {.shift = 2.5, .sigmoid_scale = 1.7}, scaled, 2.5);
  add("flux_shift", {.sigmoid_scale = 1.7}, scaled, e_to_mu(kTokens, 4096, 1.15));
  add("qwen_shift", {.sigmoid_scale = 1.7}, scaled, e_to_mu(kTokens, 8192, 0.9));
  add("krea2_shift", {.sigmoid_scale = 1.7}, scaled, e_to_mu(kTokens, 6400, 1.15));
  add(
      "ideogram4_shift", {}, [](double t) { return phi((logit(t) - std::log(kTokens * 256.0 / 512 / 512) / 2) / 1.5); }, 1);
  add(
      "logsnr", {.logit_mean = -0.4, .logit_std = 1.3}, [](double t) { return 1 - phi((-2 * logit(t) + 0.4) / 1.3); }, 1);
  add("sigma", {.shift = 2.5}, line, 2.5);
  add(
      "logit_normal", {.shift = 2.5, .logit_mean = -0.4, .logit_std = 1.3}, [](double t) { return phi((logit(t) - 0.4) / 1.3); }, 2.5);
  const auto cos_map = [](double t) { return 0.5 + 2 / std::numbers::pi * std::atan(2 * t - 1); };
  add("cos_map", {.shift = 2.5}, cos_map, 2.5);
  for (const auto& [w, b] : {std::pair(7.7, 0.1), {30.0, -0.3}, {-3.0, 0.2}, {0.0, 0.0}}) {
    const auto parabola = [w = w, b = b](double t) { return std::max(0.0, 2 - w * (t - b - 0.5) * (t - b - 0.5)); };
    add("inverted_parabola", {.shift = 1.5, .noising_weight = w, .noising_bias = b}, integral_of(parabola), 1.5);
    const auto logistic = [w = w, b = b](double t) { return 1 / (1 + std::exp(-w * (t - b - 0.5))); };
    add("logistic", {.shift = 1.5, .noising_weight = w, .noising_bias = b}, integral_of(logistic), 1.5);
  }
  add(
      "beta", {.shift = 1, .noising_weight = 2, .noising_bias = 3}, [](double t) { return t * t * (6 - 8 * t + 3 * t * t); }, 1);
  add(
      "beta", {.shift = 2, .noising_weight = 0.6, .noising_bias = 1}, [](double t) { return std::pow(t, 0.6); }, 2);
  const auto arcsine = [](double t) { return 2 / std::numbers::pi * std::asin(std::sqrt(t)); };
  add("beta", {.shift = 1, .noising_weight = 0.5, .noising_bias = 0.5}, arcsine, 1);
  // The quantile of a standard normal at 750/751.
  const double furthest = 3.004164167125816;
  const auto blend = [furthest](double t) { return 0.75 * (1 - phi(furthest + std::log(1 - t) / 0.333) * 751 / 750) + 0.25 * t; };
  add("lognorm_blend", {}, blend, 1);
  const auto of_makers = [](double t) { return 0.99 * phi((logit(0.95 * t) - 1.09) / 0.95) / phi((logit(0.95) - 1.09) / 0.95) + 0.01 * t; };
  add("logit_normal_cut", {}, of_makers, 1);
  return all;
}

/// The share of draws below sigma.
double share_below(const Case& c, double sigma) { return c.share(sigma / (c.shift - (c.shift - 1) * sigma)); }

}  // namespace

TEST(SigmaAt, InvertsTheDistributionOfEveryFormula) {
  for (const auto& c : cases()) {
    for (double u : {1e-4, 0.01, 0.13, 0.5, 0.77, 0.99, 0.9999}) {
      const double sigma = sigma_at(c.options, u, kTokens);
      ASSERT_TRUE(sigma > 0 && sigma < 1) << c.options.mode << " " << u;
      if (sigma <= 2e-5 || sigma >= 1 - 2e-5) continue;  // kept off the exact ends
      EXPECT_NEAR(share_below(c, sigma), u, 1e-6) << c.options.mode << " " << c.options.noising_weight;
    }
  }
  // Mode sampling has no distribution function in closed form; this is its quantile function.
  for (const char* name : {"mode", "heavy_tail"}) {
    TimestepOptions options{.mode = name, .shift = 2.5, .mode_scale = 1.1};
    for (double u : {0.01, 0.13, 0.5, 0.77, 0.99}) {
      const double c = std::cos(std::numbers::pi * u / 2), t = 1 - (1 - u - 1.1 * (c * c - 1 + u));
      EXPECT_NEAR(sigma_at(options, u, kTokens), 2.5 * t / (1 + 1.5 * t), 1e-12) << name << " " << u;
    }
  }
}

TEST(SigmaAt, IsCutAndNotSqueezedByMinAndMax) {
  for (auto c : cases()) {
    if (c.options.noising_weight == 30) continue;  // all of it lies below
    c.options.min_t = 0.55, c.options.max_t = 0.9;
    const double below = share_below(c, 0.55), above = share_below(c, 0.9);
    for (double u : {0.0, 0.2, 0.6, 1.0}) {
      const double sigma = sigma_at(c.options, u, kTokens);
      EXPECT_NEAR(share_below(c, sigma), below + u * (above - below), 1e-6) << c.options.mode << " " << u;
    }
  }
}

TEST(SampleSigma, DrawsAreDistributedAsTheQuantilesSay) {
  constexpr int kCount = 1500;
  for (const auto& c : cases()) {
    std::vector<double> shares;
    for (const double sigma : draw(c.options, kCount, kTokens)) shares.push_back(share_below(c, sigma));
    std::ranges::sort(shares);
    double furthest = 0;  // Kolmogorov and Smirnov's distance to the uniform distribution
    for (int i = 0; i < kCount; ++i)
      furthest =
          std::max({furthest, (i + 1.0) / kCount - shares[static_cast<size_t>(i)], shares[static_cast<size_t>(i)] - i * 1.0 / kCount});
    EXPECT_LT(furthest, 1.95 / std::sqrt(kCount)) << c.options.mode << ": likelier than one in a thousand";
    EXPECT_GT(std::set<double>(shares.begin(), shares.end()).size(), kCount * 0.99) << c.options.mode << ": not rounded to levels";
  }
}

TEST(SampleSigma, IsAFunctionOfTheKeyAndStaysInRange) {
  for (const char* mode : {"uniform", "sigmoid", "shift", "flux_shift", "qwen_shift", "krea2_shift", "ideogram4_shift", "logsnr", "sigma",
                           "logit_normal", "mode", "cos_map", "lognorm_blend", "logit_normal_cut", "diffsynth"}) {
    TimestepOptions options = sampled_by(mode);
    const auto sigmas = draw(options, 2000);
    EXPECT_EQ(sigmas, draw(options, 2000)) << mode;
    for (const double sigma : sigmas) ASSERT_TRUE(sigma > 0 && sigma <= 1) << mode << " " << sigma;
    options.sigmoid_scale = 1e6, options.logit_std = 1e6;
    for (const double sigma : draw(options, 200)) ASSERT_TRUE(sigma > 0 && sigma <= 1) << mode << " " << sigma;
    for (const double u : {0.0, 1.0}) {
      if (std::string(mode) == "diffsynth") continue;
      ASSERT_TRUE(sigma_at(options, u, 1024) > 0 && sigma_at(options, u, 1024) < 1) << mode;
    }
  }
}

TEST(SampleSigma, DistributionsAreThoseOfTheFormulas) {
  constexpr int kCount = 50000;
  EXPECT_NEAR(mean(draw(sampled_by("uniform"), kCount)), 0.5, 0.005);
  EXPECT_NEAR(mean(draw(sampled_by("diffsynth"), kCount)), 0.678, 0.005);
  EXPECT_NEAR(median(draw(sampled_by("shift"), kCount)), 0.75, 0.005);
  // A larger mean is less noise.
  TimestepOptions options = sampled_by("logit_normal");
  options.shift = 1, options.logit_mean = 1;
  EXPECT_NEAR(median(draw(options, kCount)), 1 - 1 / (1 + std::exp(-1.0)), 0.006);
}

TEST(SampleSigma, BoundariesAreFractionsFromTheNoisyEnd) {
  for (const char* mode : {"uniform", "sigmoid", "shift", "logit_normal", "mode", "diffsynth"}) {
    TimestepOptions options = sampled_by(mode);
    options.min_boundary = 0.2, options.max_boundary = 0.4;
    const double shift = std::string(mode) == "uniform" || std::string(mode) == "sigmoid" ? 1.0 : 3.0;
    const auto sigmas = draw(options, 5000);
    const auto [low, high] = std::minmax_element(sigmas.begin(), sigmas.end());
    EXPECT_GT(*low, static_shift(shift, 0.6) - 2e-3) << mode;
    EXPECT_LT(*high, static_shift(shift, 0.8) + 2e-3) << mode;
    EXPECT_GT(*high - *low, 0.05) << mode;
  }
  TimestepOptions one;
  one.min_boundary = 0.999;
  for (const double sigma : draw(one, 100)) EXPECT_EQ(sigma, kGrid.sigmas().back());
}

TEST(SampleSigma, RefusesWhatItCannotDo) {
  const std::string message = refusal([] { check(sampled_by("flux_shft")); });
  EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("logit_normal"), testing::HasSubstr("did you mean \"flux_shift\"?")));
  TimestepOptions empty;
  empty.min_boundary = 0.5, empty.max_boundary = 0.5;
  EXPECT_THAT(refusal([&] { check(empty); }), testing::HasSubstr("boundaries"));
  TimestepOptions negative;
  negative.shift = -1;
  EXPECT_THAT(refusal([&] { check(negative); }), testing::HasSubstr("shift"));
  auto refused = [](const TimestepOptions& options, const char* text) {
    EXPECT_THAT(refusal([&] { check(options); }), testing::HasSubstr(text));
  };
  refused({.mode = "heavy_tail", .mode_scale = 2}, "between -1 and 1.752");
  refused({.mode = "beta", .noising_weight = 2}, "both above 0");
  refused({.mode = "inverted_parabola", .noising_weight = 30, .noising_bias = 3}, "is 0 everywhere");
  refused({.mode = "uniform", .min_t = 0.5, .max_t = 0.5}, "min_t and max_t");
  refused({.mode = "diffsynth", .min_t = 0.5}, "is a grid");
  refused({.mode = "sigmoid", .sigmoid_scale = 0.1, .min_t = 0.95}, "next to nothing");
  check({.mode = "sigmoid", .min_t = 0.95});
  check(TimestepOptions());
}
