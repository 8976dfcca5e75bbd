#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.h"
#include "diffusion/loss_weighting.h"
#include "diffusion/timestep_sampling.h"

using namespace burnish;
using namespace burnish::diffusion;

namespace {

std::vector<double> draw(const TimestepOptions& options, int count, int64_t tokens = 1024) {
  std::vector<double> sigmas;
  for (int key = 0; key < count; ++key) sigmas.push_back(sample_sigma(options, key, tokens));
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

TimestepOptions with_mode(const std::string& mode) {
  TimestepOptions options;
  options.mode = mode;
  return options;
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(DiffsynthGrid, HasTheFiguresOfTheTemplate) {
  const std::vector<double>& grid = diffsynth_grid();
  ASSERT_EQ(grid.size(), 1000u);
  EXPECT_EQ(grid.front(), 1.0);
  EXPECT_NEAR(grid[500], 0.751, 1e-3);
  EXPECT_NEAR(grid.back(), 0.00893, 5e-6);
  EXPECT_NEAR(mean(grid), 0.678, 5e-4);
  double peak = 0, sum = 0;
  for (const double sigma : grid) {
    const double weight = loss_weight("diffsynth", sigma);
    peak = std::max(peak, weight), sum += weight;
  }
  EXPECT_NEAR(peak, 1.794, 5e-4);
  EXPECT_NEAR(sum, 1000, 1e-9);
  EXPECT_EQ(loss_weight("diffsynth", 1.0), 0.0);
  EXPECT_NEAR(loss_weight("diffsynth", 0.5), peak, 1e-5);
}

TEST(LossWeight, ClosedForms) {
  EXPECT_EQ(loss_weight("uniform", 0.3), 1.0);
  EXPECT_DOUBLE_EQ(loss_weight("sigma_sqrt", 0.5), 4.0);
  EXPECT_DOUBLE_EQ(loss_weight("cosmap", 0.5), 4.0 / std::numbers::pi);
  EXPECT_THAT(message_of([] { loss_weight("bell", 0.5); }), testing::HasSubstr("cosmap"));
  EXPECT_THAT(message_of([] { check_loss_weighting("difsynth"); }), testing::HasSubstr("did you mean \"diffsynth\"?"));
}

TEST(SampleSigma, IsAFunctionOfTheKeyAndStaysInRange) {
  for (const char* mode : {"uniform", "sigmoid", "shift", "flux_shift", "logit_normal", "mode", "diffsynth"}) {
    TimestepOptions options = with_mode(mode);
    const auto sigmas = draw(options, 5000);
    EXPECT_EQ(sigmas, draw(options, 5000)) << mode;
    for (const double sigma : sigmas) ASSERT_TRUE(sigma > 0 && sigma <= 1) << mode << " " << sigma;
    options.sigmoid_scale = 1e6, options.logit_std = 1e6;
    for (const double sigma : draw(options, 200)) ASSERT_TRUE(sigma > 0 && sigma <= 1) << mode << " " << sigma;
  }
}

TEST(SampleSigma, DistributionsAreThoseOfTheFormulas) {
  constexpr int kCount = 50000;
  EXPECT_NEAR(mean(draw(with_mode("uniform"), kCount)), 0.5, 0.005);
  EXPECT_NEAR(median(draw(with_mode("sigmoid"), kCount)), 0.5, 0.005);
  EXPECT_NEAR(median(draw(with_mode("shift"), kCount)), 0.75, 0.005);
  const double mu = 0.5 + (1024.0 - 256) * 0.65 / 3840;
  EXPECT_NEAR(median(draw(with_mode("flux_shift"), kCount)), std::exp(mu) / (std::exp(mu) + 1), 0.005);
  EXPECT_NEAR(mean(draw(with_mode("diffsynth"), kCount)), 0.678, 0.005);
  // Standard deviation of a sigmoid of a standard normal.
  double squares = 0;
  const auto sigmoid = draw(with_mode("sigmoid"), kCount);
  for (const double t : sigmoid) squares += (t - 0.5) * (t - 0.5);
  EXPECT_NEAR(std::sqrt(squares / kCount), 0.2083, 0.003);
  // Index fractions count from the noisy end: a larger mean is less noise.
  TimestepOptions options = with_mode("logit_normal");
  options.shift = 1, options.logit_mean = 1;
  EXPECT_NEAR(median(draw(options, kCount)), 1 - 1 / (1 + std::exp(-1.0)), 0.006);
  options = with_mode("mode");
  options.shift = 1;
  const double c = std::cos(std::numbers::pi * 0.25);
  EXPECT_NEAR(median(draw(options, kCount)), 1 - (0.5 - 1.29 * (c * c - 0.5)), 0.01);
}

TEST(SampleSigma, BoundariesAreFractionsFromTheNoisyEnd) {
  for (const char* mode : {"uniform", "sigmoid", "shift", "logit_normal", "mode", "diffsynth"}) {
    TimestepOptions options = with_mode(mode);
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
  for (const double sigma : draw(one, 100)) EXPECT_EQ(sigma, diffsynth_grid().back());
}

TEST(SampleSigma, RefusesWhatItCannotDo) {
  const std::string message = message_of([] { check(with_mode("flux_shft")); });
  EXPECT_THAT(message, testing::AllOf(testing::HasSubstr("logit_normal"), testing::HasSubstr("did you mean \"flux_shift\"?")));
  TimestepOptions empty;
  empty.min_boundary = 0.5, empty.max_boundary = 0.5;
  EXPECT_THAT(message_of([&] { check(empty); }), testing::HasSubstr("boundaries"));
  TimestepOptions negative;
  negative.shift = -1;
  EXPECT_THAT(message_of([&] { check(negative); }), testing::HasSubstr("shift"));
  check(TimestepOptions());
}
