// The optimizer automagic beside ai-toolkit's third (tests/golden/make_automagic.py).
#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "tests/golden.h"

namespace burnish::automagic_test {
using namespace burnish::optim;

namespace {

constexpr int64_t kNumParameters = 5;
constexpr int64_t kNumSteps = 20;

/// Of one sign in a third of the numbers, of alternating ones in another, of any in the rest.
at::Tensor gradient(int64_t step, int64_t index, at::IntArrayRef shape) {
  auto all = at::empty(shape);
  auto* to = all.mutable_data_ptr<float>();
  for (int64_t i = 0; i < all.numel(); ++i) {
    const auto size = static_cast<float>((i * 37 + step * 11 + index) % 29 + 1) / 16;
    const auto mixed = 1 - 2 * ((i * 7 + step * 5) % 3 % 2);
    to[i] = size * static_cast<float>(i % 3 == 0 ? 1 : i % 3 == 1 ? 1 - 2 * (step % 2) : mixed);
  }
  return all;
}

std::unique_ptr<Optimizer> make(double weight_decay, const std::string& args) {
  const auto file = test::golden("optim.safetensors");
  ParameterList list;
  for (int64_t i = 0; i < kNumParameters; ++i)
    list.push_back({"p" + std::to_string(i), file.tensor("start." + std::to_string(i)).clone().set_requires_grad(true)});
  return make_optimizer({.name = "automagic", .weight_decay = weight_decay, .args = args}, std::move(list));
}

void take_step(Optimizer& optimizer, int64_t step) {
  for (int64_t i = 0; i < kNumParameters; ++i) {
    const auto& value = optimizer.parameters()[static_cast<size_t>(i)].value;
    value.mutable_grad() = gradient(step, i, value.sizes());
  }
  optimizer.step(0.01);
}

void expect_golden(const std::string& name, double weight_decay, const std::string& args) {
  const auto file = test::golden("automagic.safetensors");
  const auto rates = file.tensor(name + ".rate");
  auto optimizer = make(weight_decay, args);
  for (int64_t step = 0; step < kNumSteps; ++step) {
    take_step(*optimizer, step);
    EXPECT_NEAR(optimizer->learned_rate().item<double>() * 0.01 / rates[step].item<double>(), 1, 2e-6) << name << " " << step;
    for (int64_t i = 0; i < kNumParameters; ++i) {
      const auto key = fmt::format("{}.{}.{}", name, step + 1, i);
      if (!file.contains(key)) continue;
      const auto expected = file.tensor(key);
      const auto& value = optimizer->parameters()[static_cast<size_t>(i)].value;
      EXPECT_LT(((value - expected).norm() / expected.norm()).item<double>(), 1e-6) << key;
    }
  }
}

}  // namespace

TEST(Automagic, EqualsAiToolkitsForTwentySteps) {
  expect_golden("automagic", 0.1, "");
  expect_golden("automagic_short", 0, "polarity_history=3,beta2=0.9,clip_threshold=0.5");
}

TEST(Automagic, GoesOnFromItsState) {
  auto whole = make(0.1, "polarity_history=4"), begun = make(0.1, "polarity_history=4"), resumed = make(0.1, "polarity_history=4");
  for (int64_t step = 0; step < 12; ++step) take_step(*whole, step);
  for (int64_t step = 0; step < 6; ++step) take_step(*begun, step);
  for (size_t i = 0; i < resumed->parameters().size(); ++i)
    resumed->parameters()[i].value.detach().copy_(begun->parameters()[i].value.detach());
  resumed->load_state(begun->state());
  for (int64_t step = 6; step < 12; ++step) take_step(*resumed, step);
  for (size_t i = 0; i < resumed->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(whole->parameters()[i].value, resumed->parameters()[i].value)) << i;
  EXPECT_TRUE(at::equal(whole->learned_rate(), resumed->learned_rate()));
}

}  // namespace burnish::automagic_test
