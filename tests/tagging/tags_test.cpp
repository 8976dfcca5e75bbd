// Which tags of a picture are written, and how.
#include "tagging/tags.h"

#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>

namespace burnish::tagging {

namespace {

const std::vector<TagName> kNames{{"safe", Category::rating},      {"explicit", Category::rating},  {"long_hair", Category::general},
                                  {"^_^", Category::general},      {"blue_sky", Category::general}, {"miku_(append)", Category::character},
                                  {"ayanami", Category::character}};

std::string caption(std::vector<double> likelihoods, const TagRule& rule, const std::string& before = "") {
  return caption_of(tags_of(at::tensor(likelihoods), kNames, rule), rule, before);
}

const std::vector<double> kLikely{0.2, 0.7, 0.6, 0.9, 0.4, 0.86, 0.9};

}  // namespace

TEST(Tags, AreThoseAboveTheThresholdOfTheirKindCharactersFirst) {
  EXPECT_EQ(caption(kLikely, {.general = 0.35}), "ayanami, miku (append), ^_^, long hair, blue sky");
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.88}), "ayanami, ^_^, long hair");
  EXPECT_EQ(caption(kLikely, {.general = 0.95, .character = 0.95}), "");
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .is_alphabetical = true}), "^_^, ayanami, long hair, miku (append)");
}

TEST(Tags, MayHaveTheLikeliestRatingBehindThem) {
  EXPECT_EQ(caption(kLikely, {.general = 0.7, .character = 0.95, .with_rating = true}), "^_^, explicit");
  EXPECT_EQ(caption(kLikely, {.general = 0.7, .character = 0.95, .with_rating = true, .without = {"Explicit"}}), "^_^, safe");
}

TEST(Tags, AreSpelledAsAskedForAndLeftOutInAnySpelling) {
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.95, .keeps_underscores = true}), "^_^, long_hair");
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.95, .without = {"Long Hair"}}), "^_^");
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.95, .without = {"long_hair", "^_^"}}), "");
}

TEST(Tags, StandBehindTriggerAndPrefixEachOnce) {
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.95, .trigger = "sks", .prefix = "photo, long hair"}),
            "sks, photo, long hair, ^_^");
  EXPECT_EQ(caption(kLikely, {.general = 0.5, .character = 0.95, .trigger = "long hair"}), "long hair, ^_^");
  const TagRule adding{.general = 0.5, .character = 0.95, .trigger = "sks", .is_added = true};
  EXPECT_EQ(caption(kLikely, adding, "mine, ^_^"), "sks, mine, ^_^, long hair");
  EXPECT_EQ(caption(kLikely, adding, "mine, sks"), "mine, sks, ^_^, long hair");
}

TEST(Tags, FacesHaveNoTwoLettersSideBySide) {
  for (const char* face : {"^_^", "o_o", "0_0", ">_<", "@_@", "|_|", "=_=", "(o)_(o)", "\\||/"}) EXPECT_TRUE(is_face(face)) << face;
  for (const char* word : {"long_hair", "1girl", "a_cat", "k-on!", "3d", "猫_猫"}) EXPECT_FALSE(is_face(word)) << word;
}

}  // namespace burnish::tagging
