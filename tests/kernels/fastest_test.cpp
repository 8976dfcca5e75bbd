#include "kernels/fastest.h"

#include <gtest/gtest.h>

#include <stdexcept>

using burnish::kernels::Fastest;

TEST(Fastest, EveryWayIsTriedOnceForEachKey) {
  Fastest fastest(8);
  int num_trials = 0;
  auto trial = [&](size_t way) -> std::optional<double> {
    ++num_trials;
    return way == 1 ? 2.0 : 3.0;
  };
  EXPECT_FALSE(fastest.knows({4608, 128}));
  EXPECT_EQ(fastest.of({4608, 128}, 3, trial), 1u);
  EXPECT_EQ(fastest.of({4608, 128}, 3, trial), 1u);
  EXPECT_EQ(num_trials, 3);
  EXPECT_TRUE(fastest.knows({4608, 128}));
  fastest.of({1024, 64}, 3, trial);
  EXPECT_EQ(num_trials, 6) << "another shape";
}

TEST(Fastest, WhatCannotBeDoneIsLeftOut) {
  Fastest fastest(8);
  auto only_last = [](size_t way) { return way == 2 ? std::optional<double>(9) : std::nullopt; };
  EXPECT_EQ(fastest.of({1}, 3, only_last), 2u);
  EXPECT_EQ(fastest.of({2}, 3, [](size_t) { return std::optional<double>(); }), std::nullopt);
  EXPECT_TRUE(fastest.knows({2})) << "it is not tried again";
  EXPECT_EQ(fastest.of({3}, 3, [](size_t) { return std::optional<double>(1); }), 0u) << "of equal ones the first";
}

TEST(Fastest, TriesSoManyKeysAndNoMore) {
  Fastest fastest(1);
  auto trial = [](size_t) { return std::optional<double>(1); };
  EXPECT_EQ(fastest.of({1}, 2, trial), 0u);
  EXPECT_EQ(fastest.of({2}, 2, [](size_t) -> std::optional<double> { throw std::logic_error("tried"); }), std::nullopt);
}
