// Why trained weights must not be rounded to nearest: one small layer, trained in every way to keep its weights.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/linear.h"
#include "optim/optimizer.h"
#include "quant/store.h"
#include "quant/trained_codes.h"
#include "tests/golden.h"

using namespace burnish;

namespace {

struct Task {
  at::Tensor start, x, y;
};

/// A layer [48, 32] that has to move by a seventh of its weights' size, in steps of about 2e-4 of it.
Task task() {
  at::manual_seed(5);
  auto start = (at::randn({48, 32}) * 0.1).to(at::kBFloat16).to(at::kFloat);
  auto x = at::randn({64, 32});
  return {start, x, at::linear(x, start + at::randn({48, 32}) * 0.015)};
}

/// What is left of the first loss after the run. `after_step` changes the parameter as its storage would.
double loss_left(at::ScalarType dtype, optim::Rounding rounding, const std::function<void(at::Tensor&)>& after_step = {}) {
  auto [start, x, y] = task();
  auto weight = start.to(dtype, false, /*copy=*/true);
  if (after_step) after_step(weight);
  weight.set_requires_grad(true);
  auto optimizer = optim::make_optimizer({.weight_decay = 0, .rounding = rounding}, {{"w", weight}});
  auto loss_of = [&, &x = x, &y = y] { return (at::linear(x, weight.to(at::kFloat)) - y).square().mean(); };
  auto first = loss_of().item<double>();
  for (int step = 0; step < 1000; ++step) {
    optimizer->zero_grad();
    torch::autograd::backward({loss_of()}, {});
    optimizer->step(2e-5);
    if (after_step) {
      at::NoGradGuard no_grad;
      after_step(weight);
    }
  }
  return loss_of().item<double>() / first;
}

/// The same for a layer whose weight lives in FP8 codes.
double loss_left_in_codes(double lr, int num_steps) {
  auto [start, x, y] = task();
  nn::Linear layer(32, 48, at::TensorOptions().device(at::kMeta), false);
  quant::Store store({.format = {}, .high_precision = {}, .trained = {""}, .gradient_dtype = at::kFloat});
  layer.set_source(store.store("weight", {.numbers = start}, at::kCPU));
  layer.weight.set_requires_grad(true);
  auto codes = quant::trained_codes(layer).at("weight");
  auto optimizer = optim::make_optimizer({.weight_decay = 0, .rounding = optim::Rounding::stochastic}, {{"w", layer.weight, 1, codes}});
  auto loss_of = [&, &x = x, &y = y] { return (layer.forward(x) - y).square().mean(); };
  auto first = at::mean((at::linear(x, start) - y).square()).item<double>();
  for (int step = 0; step < num_steps; ++step) {
    optimizer->zero_grad();
    torch::autograd::backward({loss_of()}, {});
    optimizer->step(lr);
  }
  return loss_of().item<double>() / first;
}

}  // namespace

TEST(TrainedWeights, NearestStallsAndTheRemainderIsFp32) {
  auto fp8 = quant::parse_format("fp8");
  auto as_fp8 = [&](at::Tensor& w) {
    auto codes = quant::quantize(w.detach(), fp8, at::kCPU, "w");
    w.detach().copy_(quant::dequantize_rows(codes, 0, w.size(0), at::kFloat));
  };
  using optim::Rounding;
  auto exact = loss_left(at::kFloat, Rounding::nearest);
  auto remainder = loss_left(at::kBFloat16, Rounding::remainder);
  auto stochastic = loss_left(at::kBFloat16, Rounding::stochastic);
  auto nearest = loss_left(at::kBFloat16, Rounding::nearest);
  auto fp8_nearest = loss_left(at::kFloat, Rounding::nearest, as_fp8);
  auto fp8_stochastic = loss_left_in_codes(2e-5, 1000);
  auto figures = std::to_string(exact) + " " + std::to_string(remainder) + " " + std::to_string(stochastic) + " " +
                 std::to_string(nearest) + " " + std::to_string(fp8_nearest) + " " + std::to_string(fp8_stochastic);
  RecordProperty("loss_left", figures);
  EXPECT_LT(exact, 0.3) << figures;
  EXPECT_NEAR(remainder, exact, 0.01) << figures;
  EXPECT_NEAR(stochastic, exact, 0.05) << figures;
  EXPECT_GT(nearest, 0.8) << figures;
  EXPECT_GT(fp8_nearest, 0.9) << figures;
  EXPECT_LT(fp8_stochastic, 0.6) << figures;
}
