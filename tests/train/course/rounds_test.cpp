// Which pictures a run draws for a round, and which of them its batches see.
#include "train/course/rounds.h"

#include <gmock/gmock.h>

#include <set>

using namespace burnish;
using namespace burnish::train;
using testing::UnorderedElementsAreArray;

namespace {

/// Two groups of three pictures, seen by two batches of four a round.
const Rounds kRounds({.num_steps = 1, .num_groups = 2, .group_size = 3}, /*batches_per_step=*/2, /*visits_a_batch=*/4, /*seed=*/5);

std::vector<int64_t> seen_of_round(int64_t round) {
  std::vector<int64_t> all;
  for (auto batch = 2 * round; batch < 2 * round + 2; ++batch) {
    EXPECT_EQ(kRounds.round_of(batch), round);
    for (auto number : kRounds.seen(batch, 6)) all.push_back(number);
  }
  return all;
}

}  // namespace

TEST(Rounds, EachPictureIsSeenBeforeAnyIsSeenAgain) {
  const auto seen = seen_of_round(0);
  ASSERT_EQ(seen.size(), 8u);
  EXPECT_THAT(std::vector(seen.begin(), seen.begin() + 6), UnorderedElementsAreArray({0, 1, 2, 3, 4, 5}));
  EXPECT_NE(seen[6], seen[7]);
  EXPECT_EQ(seen, seen_of_round(0));
  EXPECT_NE(seen, seen_of_round(1)) << "each round has an order of its own";
}

TEST(Rounds, EveryPictureAndEverySightOfItDrawsForItself) {
  const auto pictures = kRounds.pictures({{.row = 7, .epoch = 0, .occurrence = 0}, {.row = 8, .epoch = 0, .occurrence = 0}});
  ASSERT_EQ(pictures.size(), 6u);
  EXPECT_EQ(pictures[2].row, 7);
  EXPECT_EQ(pictures[3].row, 8);
  std::set<std::pair<int64_t, int64_t>> of_pictures, of_visits;
  for (const auto& picture : pictures) of_pictures.emplace(picture.row, picture.occurrence);
  EXPECT_EQ(of_pictures.size(), 6u);
  for (int64_t batch : {0, 1}) {
    const auto visits = kRounds.visits(batch, pictures);
    const auto seen = kRounds.seen(batch, 6);
    for (size_t i = 0; i < visits.size(); ++i) {
      EXPECT_EQ(visits[i].row, pictures[static_cast<size_t>(seen[i])].row);
      of_visits.emplace(visits[i].row, visits[i].occurrence);
    }
  }
  EXPECT_EQ(of_visits.size(), 8u) << "a picture that is seen twice has other noise the second time";
}
