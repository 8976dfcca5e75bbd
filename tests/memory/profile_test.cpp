#include "memory/profile.h"

#include <gmock/gmock.h>

namespace burnish::profile_test {
using namespace burnish::memory;

TEST(Profile, FindsThePeakWhatItIsMadeOfAndWhereItLies) {
  Allocations blocks{{.num_bytes = 100, .taken = 0, .place = "loading", .kind = Kind::weights},
                     {.num_bytes = 40, .taken = 1, .freed = 5, .place = "forward", .kind = Kind::activations},
                     {.num_bytes = 30, .taken = 2, .freed = 3, .place = "forward"},
                     {.num_bytes = 50, .taken = 4, .freed = 6, .place = "backward"},
                     {.num_bytes = 900, .taken = 8, .place = "the next step"}};
  auto found = profile(blocks, 1, 7, 3);
  EXPECT_EQ(found.peak.total(), 190);
  EXPECT_EQ(found.peak[Kind::weights], 100);
  EXPECT_EQ(found.peak[Kind::activations], 40);
  EXPECT_EQ(found.peak[Kind::workspace], 50);
  EXPECT_EQ(found.place, "backward");
  ASSERT_EQ(found.parts.size(), 3u);
  EXPECT_EQ(found.parts[0].most.total(), 170);
  EXPECT_EQ(found.parts[1].most.total(), 190);
  EXPECT_EQ(found.parts[2].most.total(), 190) << "as it begins";
}

TEST(Profile, OfNothingIsNothing) {
  EXPECT_EQ(profile({}, 0, 10, 4).peak.total(), 0);
  EXPECT_EQ(profile({}, 0, 10, 0).parts.size(), 0u);
}

TEST(Profile, OfAStretchInWhichNothingHappensIsWhatIsLive) {
  auto found = profile({{.num_bytes = 100, .taken = 0, .place = "loading", .kind = Kind::weights}}, 5, 5, 4);
  EXPECT_EQ(found.peak[Kind::weights], 100);
  for (const auto& part : found.parts) EXPECT_EQ(part.most.total(), 100);
}

}  // namespace burnish::profile_test
