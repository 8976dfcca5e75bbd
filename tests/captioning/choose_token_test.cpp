#include "captioning/choose_token.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace burnish::captioning {

namespace {

constexpr int kDraws = 4000;

std::vector<CounterRandom> sequence(uint64_t key) { return {CounterRandom(key)}; }

/// How often each token is drawn.
std::vector<double> shares(const at::Tensor& scores_V, const TokenRule& rule) {
  std::vector<double> counts(static_cast<size_t>(scores_V.size(0)), 0);
  auto random = sequence(7);
  for (int i = 0; i < kDraws; ++i) counts[static_cast<size_t>(choose_tokens(scores_V.unsqueeze(0), rule, random)[0])] += 1.0 / kDraws;
  return counts;
}

}  // namespace

TEST(ChooseToken, ThePenaltyMakesWhatWasSaidLessLikelyOnBothSidesOfZero) {
  auto scores = at::tensor({2.0F, -2.0F, 1.0F, -1.0F}).unsqueeze(0);
  auto said = at::tensor({1, 1, 0, 0}).to(at::kBool).unsqueeze(0);
  EXPECT_TRUE(penalised(scores, said, 2).equal(at::tensor({1.0F, -4.0F, 1.0F, -1.0F}).unsqueeze(0)));
  EXPECT_TRUE(penalised(scores, said, 1).equal(scores));
}

TEST(ChooseToken, WithoutTemperatureTheLikeliestOfEachTextIsTaken) {
  std::vector<CounterRandom> none;
  EXPECT_EQ(choose_tokens(at::tensor({0.0F, 3.0F, 1.0F, 5.0F, 3.0F, 1.0F}).view({2, 3}), {}, none), (std::vector<int64_t>{1, 0}));
}

TEST(ChooseToken, DrawsFollowTheProbabilitiesAtATemperature) {
  const auto scores = at::tensor({std::log(0.6F), std::log(0.3F), std::log(0.1F)});
  const auto plain = shares(scores, {.temperature = 1});
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(plain[i], (std::vector{0.6, 0.3, 0.1})[i], 0.03);
  const auto cold = shares(scores, {.temperature = 0.5});  // squares of the probabilities
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(cold[i], (std::vector{0.36, 0.09, 0.01})[i] / 0.46, 0.03);
}

TEST(ChooseToken, TopKAndTopPLeaveTheLikeliestTokens) {
  const auto scores = at::tensor({std::log(0.1F), std::log(0.6F), std::log(0.3F)});
  const auto two = shares(scores, {.temperature = 1, .top_k = 2});
  EXPECT_EQ(two[0], 0);
  EXPECT_NEAR(two[1], 2.0 / 3, 0.03);
  EXPECT_NEAR(shares(scores, {.temperature = 1, .top_p = 0.5})[1], 1, 1e-9);  // the first reaches it
  EXPECT_EQ(shares(scores, {.temperature = 1, .top_p = 0.7})[0], 0);          // with the second
  EXPECT_GT(shares(scores, {.temperature = 1, .top_p = 0.95})[0], 0.05);      // with the third
  EXPECT_NEAR(shares(scores, {.temperature = 1, .top_p = 0})[1], 1, 1e-9);
}

TEST(ChooseToken, EqualKeysDrawEqualTokens) {
  const auto scores = at::zeros({1, 1000});
  auto first = sequence(3), again = sequence(3), other = sequence(4);
  const TokenRule rule{.temperature = 1};
  const auto token = choose_tokens(scores, rule, first);
  EXPECT_EQ(token, choose_tokens(scores, rule, again));
  EXPECT_NE(token, choose_tokens(scores, rule, other));
  EXPECT_NE(token, choose_tokens(scores, rule, first));
}

}  // namespace burnish::captioning
