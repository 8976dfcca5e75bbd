#include "base/progress.h"

#include <gtest/gtest.h>

#include <vector>

using namespace burnish;

TEST(Progress, TellsAListenerAtItsStartAndAtEachUpdate) {
  std::vector<Standing> heard;
  listen_to_progress([&](const Standing& standing) { heard.push_back(standing); });
  Progress bar("encode", 10, 2);
  bar.update(2);
  bar.update(6);
  bar.update(10);
  listen_to_progress({});
  bar.update(11);
  ASSERT_EQ(heard.size(), 4u);
  for (const auto& standing : heard) {
    EXPECT_EQ(standing.what, "encode");
    EXPECT_EQ(standing.total, 10);
  }
  EXPECT_EQ(heard[0].done, 2);
  EXPECT_FALSE(heard[0].seconds_left || heard[1].seconds_left) << "nothing was done since the start";
  EXPECT_EQ(heard[2].done, 6);
  EXPECT_GE(heard[2].seconds_left.value(), 0);
  EXPECT_EQ(heard[3].seconds_left, 0);
}
