// What blocks keep for backward, by what is to be computed again: the same bits, in less memory.
#include "memory/recomputed_part.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "nn/recomputed_values.h"
#include "tests/allocations.h"

namespace burnish::recomputed_part_test {

namespace {

constexpr int64_t kRows = 200, kWidth = 32, kOfValue = kRows * kWidth * 4;

/// Two activations, each before a product whose weight trains, so that it keeps them.
struct Layers : nn::Block {
  Layers() {
    at::manual_seed(2);
    first = at::randn({kWidth, kWidth}).requires_grad_(true);
    second = at::randn({kWidth, kWidth}).requires_grad_(true);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    auto activated = [](const nn::Tensors& values) { return at::gelu(values[0]); };
    auto hidden = nn::recomputed({in[0]}, activated, [&](const at::Tensor& value) { return at::mm(value, first); });
    return {nn::recomputed({hidden}, activated, [&](const at::Tensor& value) { return at::mm(value, second); })};
  }
  at::Tensor first, second;
};

struct Outcome {
  int64_t num_kept = 0;  ///< bytes between forward and backward, beside the result
  std::vector<at::Tensor> numbers;
};

Outcome outcome_of(const memory::RecomputedPart& again) {
  Layers block;
  block.runner = memory::recomputing(again, nullptr, nullptr);
  auto x = at::randn({kRows, kWidth}).requires_grad_(true);
  Outcome outcome;
  {
    test::Allocations allocations;
    auto y = block.run({x})[0];
    outcome.num_kept = allocations.live() - kOfValue;
    torch::autograd::backward({y.square().sum()}, {});
    outcome.numbers = {y, x.grad(), block.first.grad(), block.second.grad()};
  }
  return outcome;
}

}  // namespace

TEST(RecomputedPart, KeepsWhatIsNotComputedAgain) {
  const auto all = outcome_of({.whole = false, .values = std::set<size_t>{}});
  EXPECT_EQ(all.num_kept, 3 * kOfValue) << "both activations, and the first product";
  const std::vector<std::pair<memory::RecomputedPart, int64_t>> cases{
      {{}, kOfValue},  // the second activation's input
      {{.whole = false, .values = std::set<size_t>{0, 1}}, kOfValue},
      {{.whole = false, .values = std::set<size_t>{0}}, 2 * kOfValue},
      {{.whole = false, .values = std::set<size_t>{1}}, 2 * kOfValue},
  };
  for (const auto& [again, num_kept] : cases) EXPECT_EQ(outcome_of(again).num_kept, num_kept);
  for (bool keeps_values : {true, false}) {
    memory::RecomputedPart whole{.whole = true};
    if (keeps_values) whole.values.emplace();
    EXPECT_LT(outcome_of(whole).num_kept, kOfValue / 10);
  }
}

TEST(RecomputedPart, ChangesNoBits) {
  const auto all = outcome_of({.whole = false, .values = std::set<size_t>{}});
  for (bool whole : {false, true}) {
    for (const auto& values : {std::optional<std::set<size_t>>(), {std::set<size_t>{}}, {std::set<size_t>{0}}, {std::set<size_t>{1}}}) {
      const auto again = outcome_of({.whole = whole, .values = values});
      for (size_t i = 0; i < all.numbers.size(); ++i) EXPECT_TRUE(at::equal(all.numbers[i], again.numbers[i])) << i;
    }
  }
}

/// A value whose inputs are used twice where it is computed, and once more beside it: three gradients meet in each.
struct SharedInput : nn::Block {
  nn::Tensors body(const nn::Tensors& in) override {
    auto squashed = [](const nn::Tensors& values) { return at::tanh(values[0]) * values[0]; };
    auto y = nn::recomputed({in[0]}, squashed, [](const at::Tensor& value) { return at::sin(value * value); });
    return {y + in[0] * 0.7};
  }
};

TEST(RecomputedPart, SumsGradientsOfSharedInputsInOneOrder) {
  auto gradient = [](const memory::RecomputedPart& again) {
    at::manual_seed(4);
    SharedInput block;
    block.runner = memory::recomputing(again, nullptr, nullptr);
    auto x = at::randn({kRows, kWidth}).requires_grad_(true);
    torch::autograd::backward({block.run({x})[0].square().sum()}, {});
    return x.grad();
  };
  const auto kept = gradient({.whole = false, .values = std::set<size_t>{}});
  for (bool whole : {false, true}) EXPECT_TRUE(at::equal(kept, gradient({.whole = whole}))) << whole;
}

}  // namespace burnish::recomputed_part_test
