#include "data/sampler.h"

#include <gmock/gmock.h>

#include <map>
#include <numeric>

#include "tests/scratch.h"

using namespace burnish;
using data::Sampler;
using data::Size;
using data::Visits;
using ::testing::HasSubstr;

namespace {

/// Rows 10 to 32 in three sizes.
Sampler sampler(int64_t batch_size, int64_t repeat, uint64_t seed) {
  std::vector<int64_t> rows;
  std::vector<Size> sizes;
  for (int64_t i = 0; i < 23; ++i) {
    rows.push_back(10 + i);
    sizes.push_back(i % 3 == 0 ? Size{64, 32} : i % 3 == 1 ? Size{32, 64} : Size{48, 48});
  }
  return {rows, sizes, batch_size, repeat, seed};
}

std::vector<Visits> epoch(Sampler& s, int64_t number) {
  std::vector<Visits> batches;
  for (int64_t i = 0; i < s.batches_per_epoch(); ++i) batches.push_back(s.batch(number * s.batches_per_epoch() + i));
  return batches;
}

std::vector<int64_t> order(const std::vector<Visits>& batches) {
  std::vector<int64_t> rows;
  for (const auto& batch : batches) {
    for (const auto& visit : batch) rows.push_back(visit.row);
  }
  return rows;
}

}  // namespace

TEST(Sampler, EveryRowOnceAnEpochPerRepeat) {
  for (int64_t repeat : {1, 3}) {
    auto s = sampler(4, repeat, 5);
    for (int64_t number : {0, 1, 7}) {
      std::map<std::pair<int64_t, int64_t>, int> seen;
      for (const auto& batch : epoch(s, number)) {
        for (const auto& visit : batch) {
          ++seen[{visit.row, visit.occurrence}];
          EXPECT_EQ(visit.epoch, number);
        }
      }
      ASSERT_EQ(std::ssize(seen), 23 * repeat);
      for (const auto& [visit, count] : seen) {
        EXPECT_EQ(count, 1) << visit.first;
        EXPECT_TRUE(visit.first >= 10 && visit.first < 33 && visit.second < repeat);
      }
    }
  }
}

TEST(Sampler, BatchesHoldOneSizeAndOnlyTheLastIsShort) {
  auto s = sampler(4, 1, 5);
  std::map<int64_t, int> short_ones;
  for (const auto& batch : epoch(s, 0)) {
    ASSERT_TRUE(!batch.empty() && batch.size() <= 4);
    auto size = (batch[0].row - 10) % 3;
    for (const auto& visit : batch) EXPECT_EQ((visit.row - 10) % 3, size);
    if (batch.size() < 4) ++short_ones[size];
  }
  for (const auto& [size, count] : short_ones) EXPECT_EQ(count, 1);
  EXPECT_EQ(s.batches_per_epoch(), 6);  // 8, 8 and 7 rows in fours
}

TEST(Sampler, TheOrderDependsOnSeedAndEpochAlone) {
  auto a = sampler(2, 1, 5), b = sampler(2, 1, 5), other = sampler(2, 1, 6);
  auto third = order(epoch(a, 3));
  EXPECT_EQ(order(epoch(b, 0)), order(epoch(a, 0)));
  EXPECT_EQ(order(epoch(b, 3)), third) << "whatever was asked before";
  EXPECT_NE(order(epoch(a, 0)), third);
  EXPECT_NE(order(epoch(other, 3)), third);
  std::vector<int64_t> in_file_order(23);
  std::iota(in_file_order.begin(), in_file_order.end(), 10);
  EXPECT_NE(third, in_file_order);
}

TEST(Sampler, RefusesNumbersBelowOne) {
  EXPECT_THAT(test::error_of([] { sampler(0, 1, 5); }, Exit::config), HasSubstr("batch_size must be at least 1, not 0"));
  EXPECT_THAT(test::error_of([] { sampler(1, 0, 5); }, Exit::config), HasSubstr("dataset_repeat must be at least 1, not 0"));
}
