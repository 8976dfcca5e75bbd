// Pictures as they come out of H.264.
#include "data/through_h264.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

using namespace burnish;

namespace {

/// Two pictures [2, 3, 64, 96] in [-1, 1] of waves.
at::Tensor waves() {
  const auto places = at::arange(64 * 96, at::kFloat).view({64, 96});
  std::vector<at::Tensor> pictures;
  for (const double step : {0.013, 0.029}) {
    std::vector<at::Tensor> colours;
    for (const double shift : {0.0, 1.0, 2.0}) colours.push_back(at::sin(places * step + shift));
    pictures.push_back(at::stack(colours));
  }
  return at::stack(pictures);
}

double error(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().mean().item<double>(); }

}  // namespace

TEST(ThroughH264, LosesMoreAtAHigherFactor) {
  const auto pictures = waves(), fine = data::through_h264(pictures, 5), usual = data::through_h264(pictures, 33),
             coarse = data::through_h264(pictures, 50);
  EXPECT_EQ(usual.sizes(), pictures.sizes());
  EXPECT_LT(error(fine, pictures), error(usual, pictures));
  EXPECT_LT(error(usual, pictures), error(coarse, pictures));
  EXPECT_LE(usual.abs().max().item<double>(), 1.0);
}

TEST(ThroughH264, IsAFunctionOfEachPicture) {
  const auto pictures = waves(), both = data::through_h264(pictures, 33);
  EXPECT_TRUE(at::equal(both, data::through_h264(pictures, 33)));
  EXPECT_TRUE(at::equal(both.narrow(0, 1, 1), data::through_h264(pictures.narrow(0, 1, 1), 33)));
}

TEST(ThroughH264, LeavesShapesWithoutNumbers) { EXPECT_TRUE(data::through_h264(at::empty({1, 3, 32, 32}, at::kMeta), 33).is_meta()); }
