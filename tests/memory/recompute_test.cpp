#include "memory/recompute.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace burnish::recompute_test {

namespace {

/// x tanh(x w), with an input that other blocks read too.
struct Product : nn::Block {
  at::Tensor w = at::linspace(-1, 1, 4).requires_grad_(true);
  nn::Tensors body(const nn::Tensors& in) override { return {in[0] * at::tanh(in[0] * w) + in[1] * in[1]}; }
};

/// Runs the body and remembers how often.
struct Counting : nn::BlockRunner {
  int num_runs = 0;
  nn::Tensors run(nn::Block& block, const nn::Tensors& inputs) override {
    ++num_runs;
    return block.body(inputs);
  }
};

/// Gradients of the input, the shared input and both blocks' weights, through two blocks.
std::vector<at::Tensor> gradients(const std::shared_ptr<nn::BlockRunner>& runner) {
  Product first, second;
  first.runner = second.runner = runner;
  auto x = at::linspace(0.1, 0.9, 12).view({3, 4}).t().requires_grad_(true),
       shared = at::linspace(-0.5, 0.7, 12).view({4, 3}).requires_grad_(true);
  auto turned = x.t(), also = shared.t();
  torch::autograd::backward({second.run({first.run({turned, also})[0], also})[0].sum()}, {});
  return {x.grad(), shared.grad(), first.w.grad(), second.w.grad()};
}

}  // namespace

TEST(Recompute, GivesTheSameBitsAndRunsBlocksByTheInnerRunner) {
  auto inner = std::make_shared<Counting>();
  const auto plain = gradients(nullptr), recomputed = gradients(memory::recompute(inner));
  EXPECT_EQ(inner->num_runs, 4) << "two blocks, forward and backward";
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(plain[i], recomputed[i])) << i;
  at::NoGradGuard no_grad;
  Product block;
  block.runner = memory::recompute(inner);
  block.run({at::ones({3, 4}), at::ones({3, 4})});
  EXPECT_EQ(inner->num_runs, 5);
}

}  // namespace burnish::recompute_test
