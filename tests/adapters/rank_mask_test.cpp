// T-LoRA's rank mask: which ranks of a LoRA take part, sample by sample, forward and backward.
#include "adapters/rank_mask.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "adapters/update.h"
#include "base/error.h"
#include "nn/linear.h"

using namespace burnish;
using namespace burnish::adapters;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

constexpr int64_t kRank = 8, kIn = 6, kOut = 5;

struct Layer {
  Layer() : linear(kIn, kOut, at::kFloat) {
    linear.weight = at::randn({kOut, kIn});
    linear.bias = at::randn({kOut});
    a = at::randn({kRank, kIn}).set_requires_grad(true);
    b = at::randn({kOut, kRank}).set_requires_grad(true);
    update = make_update(Kind::lora, {{"lora_A.weight", a}, {"lora_B.weight", b}}, 0.5);
  }
  nn::Linear linear;
  at::Tensor a, b;
  std::unique_ptr<Update> update;
};

}  // namespace

TEST(RankMask, LeavesMoreRanksOutTheMoreNoiseThereIs) {
  const RankRule rule{.least = 2};
  EXPECT_EQ(rule.ranks_at(0, 32), 32);
  EXPECT_EQ(rule.ranks_at(0.5, 32), 17);
  EXPECT_EQ(rule.ranks_at(0.999, 32), 2);
  EXPECT_EQ(rule.ranks_at(1, 32), 2);
  EXPECT_EQ((RankRule{.least = 2, .alpha = 2}.ranks_at(0.5, 32)), 9);
  EXPECT_EQ((RankRule{.least = 4}.ranks_at(1, 3)), 3);
}

TEST(RankMask, OfABatchIsOneNumberWhereAllAreEqual) {
  EXPECT_THAT(RankMask::ranks_of(8), ElementsAre());
  {
    const RankMask mask({.least = 1}, {0.1, 0.11, 0.9});
    EXPECT_THAT(RankMask::ranks_of(8), ElementsAre(7, 7, 1));
    EXPECT_THAT(RankMask::ranks_of(1), ElementsAre(1));
  }
  EXPECT_THAT(RankMask::ranks_of(8), ElementsAre());
}

/// Beside a mask over x Aᵀ in fp64.
TEST(RankMask, MasksEachSampleForwardAndBackward) {
  at::manual_seed(1);
  for (const auto& shares : {std::vector<double>{0.4}, std::vector<double>{0.2, 0.9, 0.5}}) {
    Layer layer;
    const auto num_samples = std::ssize(shares);
    const auto x = at::randn({num_samples, 4, kIn}).set_requires_grad(true), dy = at::randn({num_samples, 4, kOut});
    at::Tensor y;
    std::vector<int64_t> ranks;
    {
      const RankMask mask({.least = 1}, shares);
      y = layer.update->forward(layer.linear, x, x);
      ranks = RankMask::ranks_of(kRank);
    }
    auto keep = at::zeros({num_samples, 1, kRank}, at::kDouble);
    for (int64_t i = 0; i < num_samples; ++i) keep[i].narrow(1, 0, ranks[static_cast<size_t>(i)]).fill_(1);
    const auto wide = [](const at::Tensor& t) { return t.detach().to(at::kDouble).set_requires_grad(true); };
    const auto x64 = wide(x), a64 = wide(layer.a), b64 = wide(layer.b);
    const auto expected = at::linear(x64, layer.linear.weight.to(at::kDouble), layer.linear.bias.to(at::kDouble)) +
                          0.5 * at::matmul(at::matmul(x64, a64.t()) * keep, b64.t());
    const auto off = [](const at::Tensor& value, const at::Tensor& exact) {
      return ((value - exact).norm() / exact.norm()).item<double>();
    };
    EXPECT_LT(off(y, expected), 1e-6);
    y.backward(dy), expected.backward(dy.to(at::kDouble));
    EXPECT_LT(off(x.grad(), x64.grad()), 1e-6);
    EXPECT_LT(off(layer.a.grad(), a64.grad()), 1e-6);
    EXPECT_LT(off(layer.b.grad(), b64.grad()), 1e-6);
    const auto most = *std::ranges::max_element(ranks);
    EXPECT_EQ(layer.a.grad().narrow(0, most, kRank - most).abs().max().item<double>(), 0);
  }
}

TEST(RankMask, RefusesRowsThatAreNoSamples) {
  Layer layer;
  const RankMask mask({.least = 1}, {0.1, 0.9});
  const auto x = at::randn({3, kIn});
  try {
    layer.update->forward(layer.linear, x, x);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("set batch_size to 1"));
  }
}
