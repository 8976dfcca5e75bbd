// What a studio sees in the pixels of a dataset: what looks the same, and how sharp it is.
#include "data/resize.h"
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;
using testing::ElementsAre;

namespace {

/// Waves and stripes with hard edges of 120 by 160 pixels, which are other ones for another seed.
at::Tensor waves(double seed) {
  auto y = at::arange(120, at::kDouble).unsqueeze(1), x = at::arange(160, at::kDouble).unsqueeze(0);
  std::vector<at::Tensor> planes;
  for (int c = 0; c < 3; ++c)
    planes.push_back(127 + 45 * (x / (9 + seed) + c).sin() + 45 * (y / (7 + 2 * seed) + seed).cos() + 30 * (x / 2).sin().sign());
  return at::stack(planes, 2).clamp(0, 255).to(at::kByte);
}

}  // namespace

TEST_F(DatasetTest, KnowsWhatLooksTheSameAndWhatIsBlurred) {
  const auto soft = data::resize_and_crop(data::resize_and_crop(waves(1), data::Size{30, 40}), data::Size{120, 160});
  ASSERT_EQ(put("a.png", png(waves(1))) + put("b.png", png(waves(3))) + put("c.png", png(soft)) + put("d.png", "no picture"), 800);
  json seen;
  ASSERT_TRUE(comes_true([&] { return (seen = ask("/api/datasets/cats/looks")).contains("looks"); }));
  EXPECT_EQ(seen["done"], 4);
  EXPECT_EQ(seen["total"], 4);
  const auto& looks = seen["looks"];
  EXPECT_LT(2 * looks["c.png"]["sharpness"].get<double>(), looks["a.png"]["sharpness"].get<double>());
  EXPECT_THAT(looks["d.png"]["problem"].get<std::string>(), testing::HasSubstr("d.png"));
  EXPECT_EQ(ask("/api/datasets/cats/alike?bits=6"), json::parse(R"([["a.png", "c.png"]])"));
  EXPECT_EQ(ask("/api/datasets/cats/alike?bits=0").size(), 0u);
}

TEST_F(DatasetTest, LooksAgainAtWhatChanged) {
  ASSERT_EQ(put("a.png", png(waves(1))), 200);
  json seen;
  auto look = [&] { return comes_true([&] { return (seen = ask("/api/datasets/cats/looks")).contains("looks"); }); };
  ASSERT_TRUE(look());
  const auto before = seen["looks"]["a.png"]["sharpness"].get<double>();
  data::write_png(folder() / "a.png", at::full({9, 9, 3}, 128, at::kByte));
  ASSERT_TRUE(look());
  EXPECT_NE(seen["looks"]["a.png"]["sharpness"].get<double>(), before);
}
