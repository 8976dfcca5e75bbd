#include "data/sampler.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <ranges>
#include <set>

#include "base/error.h"
#include "tests/scratch.h"

using namespace burnish;
using data::Sampler;
using data::Visits;
using ::testing::HasSubstr;

namespace {

/// Rows 10 to 32 in three sizes.
Sampler sampler(int64_t batch_size, int64_t repeat, uint64_t seed) {
  std::vector<data::SampledRow> rows;
  for (int64_t i = 0; i < 23; ++i)
    rows.push_back({10 + i, i % 3 == 0 ? Extent{1, 64, 32} : i % 3 == 1 ? Extent{1, 32, 64} : Extent{1, 48, 48}});
  return {rows, {{static_cast<double>(repeat)}}, batch_size, seed};
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

TEST(Sampler, RowsOfABatchHaveReferencePicturesOfEqualSizes) {
  std::vector<data::SampledRow> rows;
  for (int64_t i = 0; i < 12; ++i)
    rows.push_back(
        {i, {1, 64, 64}, 0, std::vector<Extent>(static_cast<size_t>(i % 3), i % 2 == 0 ? Extent{1, 32, 32} : Extent{1, 32, 48})});
  Sampler s(rows, {{1}}, 4, 3);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < s.batches_per_epoch(); ++i) {
    auto batch = s.batch(i);
    for (const auto& visit : batch) {
      seen.insert(visit.row);
      EXPECT_EQ(rows[static_cast<size_t>(visit.row)].references, rows[static_cast<size_t>(batch[0].row)].references);
    }
  }
  EXPECT_EQ(seen.size(), 12u);
  EXPECT_EQ(s.batches_per_epoch(), 5) << "4 rows without, and 4 with one or two of either size";
}

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

TEST(Sampler, BatchesHoldOneSizeAndAreAsFewAndAsEvenAsCanBe) {
  auto s = sampler(5, 1, 5);
  std::map<int64_t, std::multiset<size_t>> lengths;
  for (const auto& batch : epoch(s, 0)) {
    auto size = (batch.at(0).row - 10) % 3;
    for (const auto& visit : batch) EXPECT_EQ((visit.row - 10) % 3, size);
    lengths[size].insert(batch.size());
  }
  using Lengths = std::multiset<size_t>;
  EXPECT_EQ(lengths, (std::map<int64_t, Lengths>{{0, {4, 4}}, {1, {4, 4}}, {2, {3, 4}}})) << "8, 8 and 7 rows, at most 5 in a batch";
  EXPECT_EQ(s.batches_per_epoch(), 6);
}

TEST(Sampler, RepeatsThatAreNoWholeNumberAreTurns) {
  std::vector<data::SampledRow> rows;
  for (int64_t i = 0; i < 30; ++i) rows.push_back({i, i % 3 == 0 ? Extent{1, 64, 32} : Extent{1, 48, 48}, i < 20 ? 0u : 1u});
  Sampler s(rows, {{0.3}, {2.5}}, 4, 5);
  std::map<int64_t, int> seen;
  std::set<std::tuple<int64_t, int64_t, int64_t>> visits;
  for (int64_t number = 0; number < 20; ++number) {
    int64_t num_first = 0, num_second = 0;
    for (const auto& batch : epoch(s, number)) {
      for (const auto& visit : batch) {
        EXPECT_TRUE(visits.emplace(visit.row, visit.epoch, visit.occurrence).second) << "each visit draws its own numbers";
        ++(visit.row < 20 ? num_first : num_second);
        ++seen[visit.row];
      }
    }
    EXPECT_EQ(num_first, 6);
    EXPECT_EQ(num_second, 25);
  }
  for (const auto& [row, count] : seen) {
    auto [least, most] = row < 20 ? std::pair{5, 7} : std::pair{46, 52};  // of 6 and 50: sizes share an epoch's visits in whole numbers
    EXPECT_TRUE(count >= least && count <= most) << row << " " << count;
  }
  EXPECT_EQ(seen.size(), 30u);
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
  EXPECT_THAT(test::error_of([] { sampler(1, 0, 5); }, Exit::config), HasSubstr("the repeats of a dataset must be more than 0, not 0"));
}

namespace {

/// `num_own` rows of two sizes from 0 on, and `num_class` of the class set from 1000 on, of which every fifth has the second size.
Sampler with_class_set(int64_t num_own, int64_t num_class, int64_t batch_size, int64_t repeat = 1, uint64_t seed = 5) {
  std::vector<data::SampledRow> rows;
  for (int64_t i = 0; i < num_own; ++i) rows.push_back({i, i % 3 == 0 ? Extent{1, 64, 32} : Extent{1, 48, 48}});
  for (int64_t i = 0; i < num_class; ++i) rows.push_back({1000 + i, i % 5 == 0 ? Extent{1, 48, 48} : Extent{1, 64, 32}, 1});
  return {rows, {{static_cast<double>(repeat)}, {.of_class_set = true}}, batch_size, seed};
}

}  // namespace

TEST(Sampler, AnEpochSeesAsManyOfTheClassSetAsOfTheOthers) {
  for (auto [num_class, repeat] : {std::pair<int64_t, int64_t>{4, 1}, {30, 1}, {300, 1}, {7, 3}, {1, 2}}) {
    auto s = with_class_set(21, num_class, 4, repeat);
    for (int64_t number : {0, 1, 9}) {
      auto rows = order(epoch(s, number));
      auto of_class = std::ranges::count_if(rows, [](auto row) { return row >= 1000; });
      EXPECT_EQ(of_class, 21 * repeat) << num_class;
      EXPECT_EQ(std::ssize(rows), 42 * repeat) << num_class;
    }
  }
}

TEST(Sampler, RowsOfTheClassSetTakeTurns) {
  for (int64_t num_class : {4, 30, 300}) {
    auto s = with_class_set(21, num_class, 1);
    std::map<int64_t, std::map<int64_t, int>> seen, seen_in_epoch;  // by whether the size is the second, then row
    std::set<std::tuple<int64_t, int64_t, int64_t>> visits;
    for (int64_t number = 0; number < 40; ++number) {
      seen_in_epoch.clear();
      for (const auto& batch : epoch(s, number)) {
        for (const auto& visit : batch) {
          EXPECT_TRUE(visits.emplace(visit.row, visit.epoch, visit.occurrence).second) << "each visit draws its own numbers";
          if (visit.row < 1000) continue;
          ++seen[(visit.row - 1000) % 5 == 0][visit.row];
          ++seen_in_epoch[(visit.row - 1000) % 5 == 0][visit.row];
        }
      }
      for (const auto& [is_second, rows] : seen_in_epoch) {
        auto [least, most] = std::ranges::minmax(rows | std::views::values);
        auto num_second = (num_class + 4) / 5;
        bool all = std::ssize(rows) == (is_second ? num_second : num_class - num_second);
        EXPECT_LE(most, all ? least + 1 : 1) << num_class;
      }
    }
    for (const auto& [size, rows] : seen) {
      auto [least, most] = std::ranges::minmax(rows | std::views::values);
      EXPECT_LE(most - least, 1) << num_class;
    }
    EXPECT_EQ(seen[0].size() + seen[1].size(), static_cast<size_t>(num_class)) << "all were seen";
  }
}

TEST(Sampler, TheClassSetLeavesTheOthersAsTheyAre) {
  auto s = with_class_set(21, 8, 4), again = with_class_set(21, 8, 4), other = with_class_set(21, 8, 4, 1, 6);
  auto third = order(epoch(s, 3));
  EXPECT_EQ(order(epoch(again, 3)), third) << "whatever was asked before";
  EXPECT_NE(order(epoch(other, 3)), third);
  std::erase_if(third, [](auto row) { return row >= 1000; });
  std::ranges::sort(third);
  std::vector<int64_t> all(21);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(third, all);
}

TEST(Sampler, AnEpochOfBillionsStartsAtOnceAndIsShuffled) {
  auto s = sampler(4, 1'000'000'000, 5);
  EXPECT_EQ(s.batches_per_epoch(), 5'750'000'000);
  std::map<int64_t, int> rows;
  std::set<std::pair<int64_t, int64_t>> visits;
  double occurrences = 0;
  constexpr int kNumBatches = 6000;
  for (int64_t number = 0; number < kNumBatches; ++number) {
    auto batch = s.batch(number);
    ASSERT_EQ(batch.size(), 4u);
    for (const auto& visit : batch) {
      EXPECT_EQ((visit.row - 10) % 3, (batch[0].row - 10) % 3) << "one size";
      EXPECT_TRUE(visits.emplace(visit.row, visit.occurrence).second) << "no visit twice";
      occurrences += static_cast<double>(visit.occurrence) / 1e9;
      ++rows[visit.row];
    }
  }
  ASSERT_EQ(rows.size(), 23u);
  const double expected = 4.0 * kNumBatches / 23;
  for (const auto& [row, count] : rows) EXPECT_NEAR(count, expected, 6 * std::sqrt(expected)) << row;
  EXPECT_NEAR(occurrences / (4.0 * kNumBatches), 0.5, 0.015);
  EXPECT_EQ(s.batch(2 * s.batches_per_epoch() - 1).at(0).epoch, 1);
}

TEST(Sampler, SizesAreMixedOverTheEpoch) {
  std::vector<data::SampledRow> rows;
  for (int64_t i = 0; i < 2000; ++i) rows.push_back({i, i < 500 ? Extent{1, 64, 32} : Extent{1, 48, 48}});
  Sampler s(rows, {{}}, 2, 5);
  int changes = 0, small = 0;
  for (int64_t number = 0; number < 500; ++number) {
    bool is_small = s.batch(number).at(0).row < 500;
    small += is_small;
    changes += is_small != (s.batch(number + 1).at(0).row < 500);
  }
  EXPECT_NEAR(small, 125, 30) << "of the first half of the epoch, a quarter";
  EXPECT_NEAR(changes, 2 * 500 * 0.25 * 0.75, 50);
}

TEST(Sampler, RefusesMoreVisitsThanCanBeCounted) {
  EXPECT_THAT(test::error_of([] { sampler(1, int64_t{1} << 62, 5); }, Exit::config),
              HasSubstr("4.61169e+18 repeats make of 23 samples more than 1000000000000 visits an epoch"));
}
