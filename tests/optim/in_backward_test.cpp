// Steps inside backward beside ordinary ones.
#include "optim/in_backward.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "tests/allocations.h"
#include "tests/device.h"
#include "tests/scratch.h"

namespace burnish::in_backward_test {
using namespace burnish::optim;

namespace {

/// A few layers, tanh between them.
struct Net {
  explicit Net(at::ScalarType dtype = at::kFloat, int64_t width = 96, int64_t depth = 4) {
    at::manual_seed(3);
    for (int64_t i = 0; i < depth; ++i) {
      list.push_back({"w" + std::to_string(i), (at::randn({width, width}) / 9).to(test::device(), dtype).requires_grad_(true)});
      list.push_back({"b" + std::to_string(i), at::randn({width}).to(test::device(), dtype).requires_grad_(true)});
    }
    x = at::randn({7, width}).to(test::device(), dtype);
  }
  at::Tensor loss() const {
    auto y = x;
    for (size_t i = 0; i < list.size(); i += 2) y = at::tanh(at::linear(y, list[i].value, list[i + 1].value));
    return y.to(at::kFloat).square().mean() * 50;
  }
  ParameterList list;
  at::Tensor x;
};

class StepInBackward : public testing::TestWithParam<const char*> {};

}  // namespace

TEST_P(StepInBackward, IsTheOrdinaryStepBitForBit) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    Net net(dtype), plain(dtype);
    const OptimizerOptions options{.name = GetParam(), .rounding = Rounding::stochastic, .seed = 4};
    auto optimizer = make_optimizer(options, net.list), ordinary = make_optimizer(options, plain.list);
    for (int step = 0; step < 3; ++step) {
      at::Tensor norm;
      {
        InBackward in_backward(*optimizer, 1e-2, 0);
        torch::autograd::backward({net.loss()}, {});
        norm = in_backward.finish();
      }
      torch::autograd::backward({plain.loss()}, {});
      EXPECT_TRUE(at::equal(norm, gradient_norm(ordinary->parameters())));
      ordinary->step(1e-2);
      ordinary->zero_grad();
      for (size_t i = 0; i < net.list.size(); ++i) {
        EXPECT_TRUE(optimizer->was_updated(i));
        EXPECT_FALSE(net.list[i].value.grad().defined());
        EXPECT_TRUE(at::equal(net.list[i].value, plain.list[i].value)) << net.list[i].name;
      }
    }
    const auto states = optimizer->state(), expected = ordinary->state();
    for (size_t i = 0; i < states.size(); ++i) EXPECT_TRUE(at::equal(states[i].second, expected[i].second)) << states[i].first;
  }
}

TEST_P(StepInBackward, OrNotWithStatesInHostMemory) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    Net net(dtype, 600, 2), plain(dtype, 600, 2);  // more than one batch of copies
    const OptimizerOptions options{.name = GetParam(), .rounding = Rounding::stochastic, .seed = 4};
    auto store = std::make_shared<memory::HostStore>(test::device());
    auto optimizer = make_optimizer(options, net.list, store), ordinary = make_optimizer(options, plain.list);
    int64_t num_bytes = 0;
    for (const auto& [name, tensor] : ordinary->state()) {
      bool is_of_all = name.ends_with(".step") || name.starts_with("schedule_free.");
      num_bytes += is_of_all ? 0 : static_cast<int64_t>(tensor.nbytes());
    }
    EXPECT_EQ(store->num_bytes(), num_bytes);
    for (int step = 0; step < 2; ++step) {
      {
        InBackward in_backward(*optimizer, 1e-2, 0);
        torch::autograd::backward({net.loss()}, {});
      }
      torch::autograd::backward({plain.loss()}, {});
      ordinary->step(1e-2);
      ordinary->zero_grad();
    }
    for (size_t i = 0; i < net.list.size(); ++i) EXPECT_TRUE(at::equal(net.list[i].value, plain.list[i].value)) << net.list[i].name;
    const auto states = optimizer->state(), expected = ordinary->state();
    for (size_t i = 0; i < states.size(); ++i) EXPECT_TRUE(at::equal(states[i].second, expected[i].second)) << states[i].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, StepInBackward,
                         testing::Values("adamw", "adamw8bit", "adafactor", "lion", "came", "muon", "adamw_schedulefree"),
                         [](const auto& info) { return std::string(info.param); });

TEST(StepInBackwardOf, GradientsAreNotThereAllAtOnce) {
  if (!test::device().is_cpu()) GTEST_SKIP() << "what is counted is main memory";
  auto most = [](bool in_backward) {
    Net net(at::kFloat, 256, 8);
    auto optimizer = make_optimizer({.name = "lion"}, net.list);
    test::Allocations allocations;
    std::optional<InBackward> step;
    if (in_backward) step.emplace(*optimizer, 1e-2, 0.0);
    torch::autograd::backward({net.loss()}, {});
    return allocations.peak();
  };
  const int64_t of_one = 256 * 256 * 4;
  EXPECT_GT(most(false), 8 * of_one);
  EXPECT_LT(most(true), 4 * of_one);
}

TEST(StepInBackwardOf, EveryGradientIsClippedByItsOwnNorm) {
  Net net, plain;
  auto optimizer = make_optimizer({.name = "adafactor", .weight_decay = 0, .args = "clip_threshold=1e9"}, net.list);
  auto ordinary = make_optimizer({.name = "adafactor", .weight_decay = 0, .args = "clip_threshold=1e9"}, plain.list);
  torch::autograd::backward({plain.loss()}, {});
  const auto norm = gradient_norm(plain.list);
  const double max_norm = norm.item<double>() / 100;
  {
    InBackward in_backward(*optimizer, 1e-2, max_norm);
    torch::autograd::backward({net.loss()}, {});
    EXPECT_TRUE(at::equal(in_backward.finish(), norm)) << "before clipping";
  }
  for (const auto& parameter : plain.list) clip_gradients({parameter}, gradient_norm({parameter}), max_norm);
  ordinary->step(1e-2);
  for (size_t i = 0; i < net.list.size(); ++i) EXPECT_TRUE(at::equal(net.list[i].value, plain.list[i].value));
}

TEST(StepInBackwardOf, OnlyOptimizersThatStepPerTensor) {
  EXPECT_TRUE(needs_all_gradients({.name = "prodigy"}));
  EXPECT_FALSE(needs_all_gradients({.name = "prodigy_schedulefree"}));  // its rate comes of the step before
  EXPECT_FALSE(needs_all_gradients({.name = "muon"}));
  Net net;
  auto optimizer = make_optimizer({.name = "prodigy"}, net.list);
  EXPECT_THROW(InBackward(*optimizer, 1, 0), std::logic_error);
}

TEST(StepInBackwardOf, AParameterOfTwoBackwardsIsRefused) {
  Net net;
  auto optimizer = make_optimizer({.name = "lion"}, net.list);
  InBackward in_backward(*optimizer, 1e-2, 0);
  torch::autograd::backward({net.loss()}, {});
  EXPECT_THAT(test::error_of([&] { torch::autograd::backward({net.loss()}, {}); }, Exit::config),
              testing::HasSubstr("gets its gradient from several blocks"));
}

}  // namespace burnish::in_backward_test
