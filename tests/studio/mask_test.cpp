// Masks of pictures in a studio: drawn in its page, and left as the file beside the picture that a run finds.
#include "data/captioned_folder.h"
#include "tests/studio/dataset_served.h"

using namespace burnish;
using namespace burnish::test;

namespace {

/// Black, and white in its left half.
at::Tensor left_half(int64_t height, int64_t width) {
  auto pixels = at::zeros({height, width, 1}, at::kByte);
  pixels.narrow(1, 0, width / 2).fill_(255);
  return pixels;
}

}  // namespace

TEST_F(DatasetTest, MasksLieWhereARunFindsThem) {
  ASSERT_EQ(put("a.png", picture(300, 400)) + put("a.txt", "a cat"), 400);
  EXPECT_TRUE(items()[0]["mask"].is_null());
  EXPECT_EQ(client().Get("/api/datasets/cats/items/a.png/mask", {{"Cookie", cookie()}})->status, 404);
  ASSERT_EQ(send("items/a.png/mask", png(left_half(150, 200))), 200);
  ASSERT_EQ(items().size(), 1u) << "a mask is no picture of its own";
  EXPECT_TRUE(items()[0]["mask"].is_number());
  const auto mask = folder() / "a-masklabel.png";
  auto pixels = data::decode_gray(mask);
  EXPECT_EQ(pixels.sizes(), (std::vector<int64_t>{300, 400, 1})) << "the size of its picture";
  EXPECT_EQ(pixels[150][10].item<int>(), 255);
  EXPECT_EQ(pixels[150][390].item<int>(), 0);
  EXPECT_EQ(data::load_captioned_folder(folder()).rows.at(0)["mask"], mask.string());
  auto shown = client().Get("/api/datasets/cats/items/a.png/mask?side=320", {{"Cookie", cookie()}});
  EXPECT_EQ(data::decode_upright(shown->body, "shown").sizes(), (std::vector<int64_t>{240, 320, 3}));
  auto whole = client().Get("/api/datasets/cats/items/a.png/mask", {{"Cookie", cookie()}});
  EXPECT_EQ(whole->body, text_of(mask));
  EXPECT_EQ(remove("/items/a.png/mask"), 200);
  EXPECT_FALSE(fs::exists(mask));
}

TEST_F(DatasetTest, MasksOfOtherNamesAreWrittenWhereTheyAre) {
  ASSERT_EQ(put("a.png", picture(8, 16)) + put("a.mask.png", png(left_half(8, 16))), 400);
  EXPECT_EQ(items().size(), 1u);
  ASSERT_EQ(send("items/a.png/mask", png(at::full({8, 16, 1}, 255, at::kByte))), 200);
  EXPECT_EQ(data::decode_gray(folder() / "a.mask.png")[0][15].item<int>(), 255);
  EXPECT_FALSE(fs::exists(folder() / "a-masklabel.png")) << "a picture has one mask";
}

TEST_F(DatasetTest, MasksGoWhereTheirPictureGoes) {
  ASSERT_EQ(put("a.png", picture(8, 16)) + send("items/a.png/mask", png(left_half(8, 16))), 400);
  ask("/api/datasets/cats/leave_out", json{{"files", {"a.png"}}, {"out", true}});
  EXPECT_TRUE(fs::exists(folder() / ".excluded/a-masklabel.png"));
  EXPECT_TRUE(items()[0]["mask"].is_number());
  EXPECT_EQ(remove("/items/a.png"), 200);
  EXPECT_TRUE(fs::exists(root() / "bin/pictures of cats/a-masklabel.png"));
}

TEST_F(DatasetTest, MasksHaveTheShapeOfTheirPicture) {
  ASSERT_EQ(put("a.png", picture(8, 16)), 200);
  EXPECT_EQ(send("items/a.png/mask", png(left_half(16, 8))), 400);
  EXPECT_EQ(send("items/a.png/mask", "no picture"), 500);
  EXPECT_TRUE(items()[0]["mask"].is_null());
}
