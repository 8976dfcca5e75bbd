// How good pictures are among their group, by sums of scores.
#include "train/objectives/nft.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

#include <cmath>

namespace burnish::nft_test {
using namespace burnish::train;

TEST(Optimality, IsTheDistanceFromTheGroupsMeanInDeviationsOfAll) {
  // Groups (0, 2) and (10, 14) have means 1 and 12; all four deviate by sqrt(32.75) from their mean, 6.5.
  const auto r = optimality_of(at::tensor({0., 2., 10., 14.}, at::kDouble), 2, 5);
  const auto deviation = std::sqrt(32.75) + 1e-4;
  for (int64_t i = 0; i < 4; ++i) {
    const double apart[] = {-1, 1, -2, 2};
    EXPECT_NEAR(r[i].item<double>(), 0.5 + apart[i] / deviation / 10, 1e-12);
  }
}

TEST(Optimality, IsCutAtWhollyGoodAndWhollyBad) {
  const auto r = optimality_of(at::tensor({-1., 1.}, at::kDouble), 2, 0.5);
  EXPECT_EQ(r[0].item<double>(), 0);
  EXPECT_EQ(r[1].item<double>(), 1);
  EXPECT_EQ(optimality_of(at::tensor({3., 3.}, at::kDouble), 2, 5)[0].item<double>(), 0.5) << "equal scores tell nothing";
}

}  // namespace burnish::nft_test
