// Losses that count large errors less, against the formulas written out in fp64.
#include "train/objectives/robust_loss.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "diffusion/discrete_process.h"
#include "diffusion/flow_process.h"
#include "tests/scratch.h"

namespace burnish::robust_loss_test {
using namespace burnish::train;

namespace {

const diffusion::FlowProcess kFlow{diffusion::FlowSamplerConfig{}};
const diffusion::DiscreteProcess kDiscrete{diffusion::DiscreteConfig{}};

double threshold(const char* schedule, const diffusion::Process& process, double time, double scale = 1) {
  return thresholds(parse_robust_loss("huber", schedule, 0.1, scale), process, at::full({1}, time, at::kFloat)).item<double>();
}

}  // namespace

TEST(RobustLoss, ThresholdsFollowTheirSchedules) {
  EXPECT_NEAR(threshold("constant", kFlow, 0.3, 2), 0.2, 1e-7);
  EXPECT_NEAR(threshold("exponential", kFlow, 0, 2), 2, 1e-6);
  EXPECT_NEAR(threshold("exponential", kFlow, 1), 0.1, 1e-7);
  EXPECT_NEAR(threshold("exponential", kDiscrete, 500), std::pow(0.1, 0.5), 1e-6);
  EXPECT_NEAR(threshold("snr", kFlow, 0.5), 0.9 / 4 + 0.1, 1e-6) << "noise and signal are equal";
  auto ones = at::ones({1}), time = at::full({1}, 700.0, at::kFloat);
  auto signal = kDiscrete.add_noise(ones, at::zeros({1}), time).item<double>();  // the root of the cumulated alpha
  auto ratio = std::sqrt(1 - signal * signal) / signal;
  EXPECT_NEAR(threshold("snr", kDiscrete, 700), 0.9 / std::pow(1 + ratio, 2) + 0.1, 1e-5);
}

TEST(RobustLoss, ErrorsAreMeansOverASample) {
  auto prediction = at::tensor({0.5, -3.0, 0.01, 2.0}).view({2, 2}), target = at::zeros({2, 2});
  auto c_B = at::tensor({0.1, 0.4});
  for (const char* shape : {"huber", "smooth_l1"}) {
    auto found = errors(parse_robust_loss(shape, "constant", 0.1, 1), prediction, target, c_B).mean(1);
    for (int64_t i = 0; i < 2; ++i) {
      double sum = 0, c = c_B[i].item<double>();
      for (int64_t j = 0; j < 2; ++j) {
        auto d = prediction[i][j].item<double>();
        sum += 2 * (shape[0] == 'h' ? c : 1) * (std::sqrt(d * d + c * c) - c);
      }
      EXPECT_NEAR(found[i].item<double>(), sum / 2, 1e-6) << shape;
    }
  }
  auto far = at::full({1, 1}, 1e3), near_zero = at::full({1, 1}, 1e-4), zero = at::zeros({1, 1}), c = at::full({1}, 0.1);
  auto huber = parse_robust_loss("huber", "constant", 0.1, 1);
  EXPECT_LT(errors(huber, far, zero, c).item<double>(), 1e3) << "no longer by the square";
  EXPECT_NEAR(errors(huber, near_zero, zero, c).item<double>() / 1e-8, 1, 0.3) << "small errors count by it";
}

TEST(RobustLoss, UnknownWordsAreRefused) {
  EXPECT_THAT(test::error_of([] { parse_robust_loss("hubert", "snr", 0.1, 1); }, Exit::config), testing::HasSubstr("huber"));
  EXPECT_THAT(test::error_of([] { parse_robust_loss("huber", "linear", 0.1, 1); }, Exit::config), testing::HasSubstr("exponential"));
  EXPECT_THAT(test::error_of([] { parse_robust_loss("huber", "snr", 0, 1); }, Exit::config), testing::HasSubstr("above 0"));
}

}  // namespace burnish::robust_loss_test
