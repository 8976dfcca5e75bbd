#include <gtest/gtest.h>

#include "base/random_key.h"

using burnish::CounterRandom;

TEST(CounterRandom, KeyDecidesTheSequence) {
  CounterRandom first(7), again(7), other(8);
  for (int i = 0; i < 10; ++i) {
    const uint64_t number = first.next();
    EXPECT_EQ(number, again.next());
    EXPECT_NE(number, other.next());
  }
}

TEST(CounterRandom, FirstDrawsOfNeighbouringKeysAreUniformAndNormal) {
  constexpr int kNumKeys = 200000;
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, normal_fourth = 0;
  for (int key = 0; key < kNumKeys; ++key) {
    const double u = CounterRandom(key).uniform(), n = CounterRandom(key).normal();
    ASSERT_TRUE(u >= 0 && u < 1);
    sum += u, squares += u * u, normal_sum += n, normal_squares += n * n, normal_fourth += n * n * n * n;
  }
  EXPECT_NEAR(sum / kNumKeys, 0.5, 0.003);
  EXPECT_NEAR(squares / kNumKeys, 1.0 / 3, 0.003);
  EXPECT_NEAR(normal_sum / kNumKeys, 0, 0.01);
  EXPECT_NEAR(normal_squares / kNumKeys, 1, 0.015);
  EXPECT_NEAR(normal_fourth / kNumKeys, 3, 0.12);
}
