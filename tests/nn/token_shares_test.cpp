// A block of two streams and one whose tokens several places share out gives what it gives one that has them all, forward and backward.
#include "nn/token_shares.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "nn/attention.h"
#include "nn/linear.h"
#include "tests/dist/together.h"

namespace burnish::token_shares_test {
using testing::HasSubstr;
using testing::ThrowsMessage;

namespace {

constexpr int64_t kHeads = 12, kHeadDim = 4, kText = 7, kImage = 18;
const auto kExact = at::TensorOptions().dtype(at::kDouble);

at::Tensor drawn(uint64_t seed, at::IntArrayRef shape) { return at::randn(shape, at::detail::createCPUGenerator(seed), kExact); }

/// Attention of tokens with a table of places, as blocks have it.
class Layer : public nn::Module, public nn::SharesTokens {
 public:
  Layer() : SharesTokens(kHeads), weight(drawn(1, {3 * kHeads * kHeadDim, kHeads * kHeadDim}).mul(0.2)) { own("weight", weight); }
  at::Tensor forward(const at::Tensor& x_BlD, const at::Tensor& table_LP, const at::Tensor& bias) const {
    auto qkv = at::linear(x_BlD, weight).unflatten(-1, {3 * kHeads, kHeadDim}).transpose(1, 2).chunk(3, 1);
    auto table = here(table_LP, 0);
    return x_BlD + nn::merge_heads(attention_of(qkv[0] * table, qkv[1] * table, qkv[2], bias, table_LP.size(0)));
  }
  at::Tensor weight;
};

/// A transformer of them: streams are split before it and the image is joined behind it.
class Model : public nn::Module, public nn::SharesTokens {
 public:
  Model() {
    own("first", first);
    own("second", second);
  }
  at::Tensor forward(const at::Tensor& text_BTD, const at::Tensor& image_BID, const at::Tensor& table_LP, const at::Tensor& bias) {
    const nn::Streams streams(shares(), {kText, kImage});
    auto x = at::cat({streams.here(0, text_BTD), streams.here(1, image_BID)}, 1);
    auto table = streams.by_place(table_LP, 0);
    x = first.forward(x, table, streams.bias_by_place(bias));
    x = second.forward(x, table, {});
    return streams.joined(1, x.narrow(1, streams.length_here(0), streams.length_here(1)));
  }
  Layer first, second;
};

struct Result {
  at::Tensor out;
  std::vector<at::Tensor> gradients;
  nn::TokenShares::Traffic traffic;
};

/// Each place counts its part of the loss, and gradients are summed over places.
Result run(const dist::World& world, const at::Tensor& bias) {
  Model model;
  auto shares = std::make_shared<nn::TokenShares>(world.some("places", world.rank(), world.size()));
  shares->is_on = world.size() > 1;
  nn::share_tokens(model, shares);
  std::vector<at::Tensor> leaves{drawn(2, {2, kText, kHeads * kHeadDim}), drawn(3, {2, kImage, kHeads * kHeadDim}), model.first.weight,
                                 model.second.weight};
  for (auto& leaf : leaves) leaf.requires_grad_();
  Result result;
  result.out = model.forward(leaves[0], leaves[1], drawn(4, {kText + kImage, kHeadDim}), bias);
  auto loss = (result.out * drawn(5, result.out.sizes())).square().sum() / static_cast<double>(world.size());
  torch::autograd::backward({loss}, {});
  for (const auto& leaf : leaves) {
    auto sum = leaf.grad().clone();
    world.group().sum(sum)->wait();
    result.gradients.push_back(sum);
  }
  result.traffic = shares->traffic();
  return result;
}

std::vector<Result> run_together(int64_t size, const at::Tensor& bias) {
  return test::together<Result>(size, [&](const dist::World& world) { return run(world, bias); });
}

void expect_same(int64_t size, const at::Tensor& bias = {}) {
  SCOPED_TRACE(size);
  auto whole = run(dist::World(), bias);
  for (const auto& place : run_together(size, bias)) {
    EXPECT_LE((place.out - whole.out).abs().max().item<double>(), 1e-12);
    for (size_t i = 0; i < whole.gradients.size(); ++i)
      EXPECT_LE((place.gradients[i] - whole.gradients[i]).abs().max().item<double>() / whole.gradients[i].abs().max().item<double>(),
                1e-13);
  }
}

}  // namespace

TEST(TokenShares, GiveWhatOneProcessGives) {
  for (int64_t size : {2, 3, 4}) expect_same(size);
}

TEST(TokenShares, BiasesOfKeysAndOfPairsFollowTheTokens) {
  expect_same(3, drawn(6, {2, 1, 1, kText + kImage}));
  expect_same(4, drawn(7, {2, 1, kText + kImage, kText + kImage}));
}

TEST(TokenShares, OffEveryoneHasAllTokens) {
  auto results = test::together<bool>(2, [](const dist::World& world) {
    Model model;
    auto shares = std::make_shared<nn::TokenShares>(world.some("places", world.rank(), world.size()));
    nn::share_tokens(model, shares);
    auto text = drawn(2, {1, kText, kHeads * kHeadDim}), image = drawn(3, {1, kImage, kHeads * kHeadDim}),
         table = drawn(4, {kText + kImage, kHeadDim});
    auto alone = Model().forward(text, image, table, {});
    // Products in two threads have other last bits.
    auto difference = (model.forward(text, image, table, {}) - alone).abs().max().item<double>();
    return difference <= 1e-12 && shares->traffic().num_exchanges == 0;
  });
  EXPECT_THAT(results, testing::Each(true));
}

TEST(TokenShares, WhatTravelsIsCounted) {
  // Of each layer q, k, v and what comes of them, forward and backward: half of every place's tokens. Then the image, gathered and its
  // gradient exchanged. Rows are as long as the longest part: 13 tokens of 25, 9 of 18.
  const int64_t of_a_row = 2 * kHeads / 2 * 13 * kHeadDim * 8, image = 2 * 9 * kHeads * kHeadDim * 8;
  for (const auto& place : run_together(2, {})) {
    EXPECT_EQ(place.traffic.num_bytes, 2 * 2 * 4 * of_a_row + 2 * image);
    EXPECT_EQ(place.traffic.num_exchanges, 2 * 2 * 2 + 2);
  }
}

TEST(TokenShares, EveryPlaceHasItsShareOfAllTokens) {
  auto lengths = test::together<std::vector<int64_t>>(3, [](const dist::World& world) {
    nn::TokenShares shares(world.some("places", world.rank(), world.size()));
    const nn::Streams streams(&shares, {7, 18});
    return std::vector<int64_t>{streams.length_here(0), streams.length_here(1)};
  });
  EXPECT_THAT(lengths, testing::ElementsAre(std::vector<int64_t>{2, 6}, std::vector<int64_t>{2, 6}, std::vector<int64_t>{3, 6}));
}

TEST(TokenShares, FewerTokensThanPlacesAreRefused) {
  auto refused = test::together<std::string>(2, [](const dist::World& world) {
    nn::TokenShares shares(world.some("places", world.rank(), world.size()));
    try {
      const nn::Streams streams(&shares, {9, 1});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  });
  EXPECT_THAT(refused, testing::Each(HasSubstr("sequence_size 2 shares out the tokens of a picture, and this one has 1")));
}

TEST(TokenShares, HeadsAreThoseOfAllAttention) {
  Model model;
  EXPECT_EQ(nn::heads_to_share(model), kHeads);
  nn::Linear none(2, 2, kExact);
  EXPECT_EQ(nn::heads_to_share(none), 0);
}

}  // namespace burnish::token_shares_test
