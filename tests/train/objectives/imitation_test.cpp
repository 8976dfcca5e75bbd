// The times of a teacher's walk by way of a student's.
#include "train/objectives/imitation.h"

#include <gmock/gmock.h>

namespace burnish::imitation_test {
using burnish::train::walk_through;
using testing::ElementsAre;

TEST(WalkThrough, GoesByAllTimesAndTakesNoMoreSteps) {
  EXPECT_THAT(walk_through({1, 0.6, 0}, {1, 0.8, 0.5, 0.25, 0}), ElementsAre(ElementsAre(1, 0.8, 0.6), ElementsAre(0.6, 0.25, 0)));
}

TEST(WalkThrough, OfEqualGridsIsTheGrid) {
  EXPECT_THAT(walk_through({1, 0.7, 0.3, 0}, {1, 0.7, 0.3, 0}),
              ElementsAre(ElementsAre(1, 0.7), ElementsAre(0.7, 0.3), ElementsAre(0.3, 0)));
}

TEST(WalkThrough, NeverRepeatsATime) {
  for (const auto& steps : walk_through({1, 0.52, 0.5, 0}, {1, 0.51, 0.2, 0.1, 0})) {
    for (size_t i = 0; i + 1 < steps.size(); ++i) EXPECT_GT(steps[i], steps[i + 1]);
  }
}

}  // namespace burnish::imitation_test
