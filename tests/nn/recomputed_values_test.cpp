// Values that backward computes again: the same bits, and no memory between forward and backward.
#include "nn/recomputed_values.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "tests/allocations.h"

namespace burnish::recomputed_values_test {

namespace {

constexpr int64_t kRows = 300, kWidth = 64;

/// A normed and activated input before two products and one that is frozen: values are used twice and have parameters of their own.
struct Layers {
  explicit Layers(bool input_trains = true) {
    at::manual_seed(5);
    x = at::randn({kRows, kWidth}).requires_grad_(input_trains);
    scale = at::randn({kWidth}).requires_grad_(true);
    first = at::randn({kWidth, kWidth}).requires_grad_(true);
    second = at::randn({kWidth, kWidth}).requires_grad_(true);
    frozen = at::randn({kWidth, kWidth});
  }
  nn::Tensors values(const nn::Tensors& in) const {
    auto normed = at::layer_norm(in[0], {kWidth}) * in[1];
    return {normed, at::gelu(normed), at::tanh(in[0])};
  }
  nn::Tensors products(const nn::Tensors& v) const { return {at::mm(v[0], first) + at::mm(v[1], second), at::mm(v[2], frozen)}; }

  nn::Tensors plain() const { return products(values({x, scale})); }
  nn::Tensors recomputed() const {
    return nn::recomputed(
        {x, scale}, [this](const nn::Tensors& in) { return values(in); }, [this](const nn::Tensors& v) { return products(v); });
  }
  nn::Tensors gradients(const nn::Tensors& results) {
    torch::autograd::backward({(results[0].square() + results[1]).sum()}, {});
    return {results[0], results[1], x.grad(), scale.grad(), first.grad(), second.grad()};
  }

  at::Tensor x, scale, first, second, frozen;
};

void expect_same(const nn::Tensors& a, const nn::Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(at::equal(a[i], b[i])) << i;
    }
  }
}

}  // namespace

TEST(Remade, GivesTheSameBits) {
  for (bool input_trains : {true, false}) {
    Layers a(input_trains), b(input_trains);
    auto results = b.recomputed();
    expect_same(a.gradients(a.plain()), b.gradients(results));
  }
}

TEST(Remade, GivesTheSameBitsWhereOneResultHasNoGradient) {
  Layers a, b;
  auto gradients = [](const nn::Tensors& results, const Layers& layers) {
    torch::autograd::backward({results[1].sum()}, {});
    return nn::Tensors{layers.x.grad(), layers.scale.grad(), layers.first.grad()};
  };
  expect_same(gradients(a.plain(), a), gradients(b.recomputed(), b));
}

TEST(Remade, KeepsNoValues) {
  auto kept = [](bool remade) {
    Layers layers;
    test::Allocations allocations;
    auto results = remade ? layers.recomputed() : layers.plain();
    return allocations.live();
  };
  const int64_t of_value = kRows * kWidth * 4, results = 2 * of_value;
  EXPECT_EQ(kept(true), results);
  EXPECT_GT(kept(false), results + 3 * of_value) << "the three values, and what layer norm keeps";
}

TEST(Remade, HoldsNothingAfterBackward) {
  Layers layers;
  test::Allocations allocations;
  {
    auto loss = layers.recomputed()[0].sum();
    torch::autograd::backward({loss}, {});
  }
  for (auto* parameter : {&layers.x, &layers.scale, &layers.first, &layers.second}) parameter->mutable_grad() = at::Tensor();
  EXPECT_EQ(allocations.live(), 0);
}

TEST(Remade, IsPlainWithoutGradients) {
  Layers a, b;
  at::NoGradGuard no_grad;
  expect_same(a.plain(), b.recomputed());
}

}  // namespace burnish::recomputed_values_test
