#include "data/survey.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <bit>

#include "data/image.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::ElementsAre;

namespace {

/// Smooth waves of 120 by 160 pixels that depend on `seed`.
at::Tensor waves(double seed) {
  auto y = at::arange(120, at::kDouble).unsqueeze(1), x = at::arange(160, at::kDouble).unsqueeze(0);
  std::vector<at::Tensor> planes;
  for (int c = 0; c < 3; ++c) planes.push_back(127 + 60 * (x / (9 + seed) + c).sin() + 60 * (y / (7 + seed * 2) + seed).cos());
  return at::stack(planes, 2).clamp(0, 255).to(at::kByte);
}

int distance(const at::Tensor& a, const at::Tensor& b) { return std::popcount(data::look_of(a) ^ data::look_of(b)); }

}  // namespace

TEST(Survey, LooksOutliveScalingAndAnotherBrightnessAndTellPicturesApart) {
  auto picture = waves(1);
  EXPECT_LE(distance(picture, data::resize_and_crop(picture, data::Size{60, 80})), 3);
  EXPECT_LE(distance(picture, (picture.to(at::kFloat) * 0.8 + 20).to(at::kByte)), 3);
  EXPECT_GT(distance(picture, waves(3)), 10);
  EXPECT_GT(distance(picture, picture.flip({1})), 10);
}

TEST(Survey, LooksThatDifferByThreeBitsAreAlike) {
  const uint64_t a = 0x0123456789ABCDEF, three = a ^ 0x0001000100010000, four = a ^ 0x0001000100010001, far = ~a;
  EXPECT_THAT(data::alike({a, far, three, far}), ElementsAre(ElementsAre(0u, 2u), ElementsAre(1u, 3u)));
  EXPECT_THAT(data::alike({a, four, far}), ElementsAre());
  EXPECT_THAT(data::alike({a, three, four}), ElementsAre(ElementsAre(0u, 1u, 2u))) << "the second is like both others";
  EXPECT_THAT(data::alike({}), ElementsAre());
  EXPECT_THAT(data::alike({a, a, three}, 0), ElementsAre(ElementsAre(0u, 1u)));
  EXPECT_THAT(data::alike({a, four, far}, 4), ElementsAre(ElementsAre(0u, 1u)));
}

TEST(Survey, CountsSizesBatchesCaptionsAndWhatLooksTheSame) {
  test::Scratch scratch;
  data::write_png(scratch / "a.png", waves(1));
  data::write_png(scratch / "b.png", waves(3));
  data::write_png(scratch / "c.png", data::resize_and_crop(waves(1), data::Size{60, 80}));
  auto metadata = scratch.write("m.csv", "image,prompt\na.png,\"sea, sky\"\nb.png,sky\nc.png,\na.png,two words\n");
  data::DatasetOptions options{.subsets = {{scratch.path(), metadata.string()}}};
  options.subsets[0].visits.num_repeats = 3;
  const data::Dataset dataset(options);
  auto found = data::survey(dataset, 4);
  EXPECT_EQ(found.num_files, 3);
  EXPECT_EQ(found.smallest, (data::Size{60, 80}));
  EXPECT_EQ(found.largest, (data::Size{120, 160}));
  ASSERT_EQ(found.buckets.size(), 2u);
  EXPECT_THAT(found.buckets[0].rows, ElementsAre(2));
  EXPECT_EQ(found.buckets[1].num_visits, 9);
  EXPECT_EQ(found.buckets[1].num_batches, 3);
  EXPECT_NEAR(found.cut_away, (3 * (1 - 112.0 / 120) + (1 - 48.0 / 60)) / 4, 1e-9);
  EXPECT_EQ(found.num_enlarged, 0);
  EXPECT_THAT(found.alike, ElementsAre(ElementsAre((scratch / "a.png").string(), (scratch / "c.png").string())));
  EXPECT_EQ(found.captions.num_captions, 4);
  EXPECT_EQ(found.captions.num_empty, 1);
  EXPECT_EQ(found.captions.median_words, 2);
  using Tag = std::pair<std::string, int64_t>;
  EXPECT_THAT(found.captions.tags, ElementsAre(Tag{"sky", 2}, Tag{"sea", 1}, Tag{"two words", 1}));
}
