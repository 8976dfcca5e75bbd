// What goes token by token computed for some tokens at a time: the numbers of all at once.
#include "nn/by_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "nn/linear.h"
#include "nn/recomputed_values.h"
#include "tests/golden.h"

namespace burnish::by_tokens_test {
using namespace burnish::nn;

namespace {

at::Tensor drawn(at::IntArrayRef sizes) { return at::randn(sizes).set_requires_grad(true); }

/// Norms x [B, L, D] by a shared weight and scales it by a number a token, [L].
Tensors normed(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& scale, int64_t at_once) {
  return {by_tokens({{x}, {weight, kShared}, {scale, 0}}, 2, at_once, [](const Tensors& in) {
    return (at::rms_norm(in[0], in[1].sizes(), in[1], 1e-6) * in[2].unsqueeze(1)).unflatten(-1, {2, -1}).transpose(1, 2);
  })};
}

/// Counts how often a gradient is complete, as updates inside backward and sums over processes wait for it.
class Counter final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Counter(int64_t& calls) : calls_(calls) {}
  void operator()(const at::Tensor&) override { ++calls_; }

 private:
  int64_t& calls_;
};

}  // namespace

TEST(ByTokens, GivesResultAndGradientsOfAllAtOnce) {
  auto x = drawn({2, 13, 8}), weight = drawn({8}), scale = drawn({13}), of_result = at::randn({2, 2, 13, 4});
  Tensors results, of_x, of_weight, of_scale;
  for (int64_t at_once : {0, 13, 5, 1}) {
    auto y = normed(x, weight, scale, at_once)[0];
    auto grads = torch::autograd::grad({y}, {x, weight, scale}, {of_result});
    results.push_back(y);
    of_x.push_back(grads[0]), of_weight.push_back(grads[1]), of_scale.push_back(grads[2]);
  }
  for (size_t i = 1; i < results.size(); ++i) {
    EXPECT_TRUE(at::equal(results[i], results[0])) << i;
    EXPECT_TRUE(at::equal(of_x[i], of_x[0])) << i;
    EXPECT_LE(test::relative_error(of_scale[i], of_scale[0]), 1e-6) << i;
    EXPECT_LE(test::relative_error(of_weight[i], of_weight[0]), 1e-6) << i;
  }
}

TEST(ByTokens, LeavesAloneWhatNeedsNoGradient) {
  auto x = drawn({1, 6, 8}), weight = at::randn({8}), scale = at::randn({6});
  auto y = normed(x, weight, scale, 4)[0];
  y.sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_FALSE(normed(x.detach(), weight, scale, 4)[0].requires_grad());
}

TEST(ByTokens, AddsToParametersOnce) {
  Linear up(8, 16, at::TensorOptions()), down(16, 8, at::TensorOptions());
  Tensors parameters;
  for (auto* layer : {&up, &down}) {
    for (auto& [path, slot] : layer->parameters()) parameters.push_back(*slot = at::randn(slot->sizes()).set_requires_grad(true));
  }
  auto x = drawn({2, 11, 8}), of_result = at::randn({2, 11, 8});
  auto run = [&](int64_t at_once) {
    auto y = by_tokens(
        {{x}}, 1, at_once, [&](const Tensors& in) { return down.forward(at::gelu(up.forward(in[0]))); }, true);
    torch::autograd::backward({y}, {of_result});
    Tensors grads;
    for (auto& parameter : parameters) grads.push_back(parameter.grad().clone()), parameter.mutable_grad() = at::Tensor();
    grads.push_back(x.grad().clone()), x.mutable_grad() = at::Tensor();
    return grads;
  };
  const auto whole = run(0);
  int64_t calls = 0;
  for (auto& parameter : parameters) torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Counter>(calls));
  const auto pieces = run(4);
  EXPECT_EQ(calls, std::ssize(parameters)) << "what follows a gradient, an update say, sees all of it";
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_LE(test::relative_error(pieces[i], whole[i]), 2e-6) << i;
}

TEST(ByTokens, GoesInsideOfValuesThatAreMadeAgain) {
  auto x = drawn({1, 9, 8}), weight = drawn({8}), scale = at::randn({9});
  auto run = [&](int64_t at_once) {
    auto y = recomputed(
        {x, weight, scale}, [=](const Tensors& in) { return normed(in[0], in[1], in[2], at_once); },
        [](const Tensors& values) { return Tensors{values[0].square()}; })[0];
    return torch::autograd::grad({y.sum()}, {x, weight});
  };
  const auto whole = run(0), pieces = run(2);
  for (size_t i = 0; i < 2; ++i) EXPECT_LE(test::relative_error(pieces[i], whole[i]), 1e-6) << i;
}

}  // namespace burnish::by_tokens_test
