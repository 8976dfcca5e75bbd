// Boxes that models answer, and captions that are made of them.
#include "captioning/regions.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "captioning/laid_out.h"
#include "tests/golden.h"

namespace burnish::captioning {

namespace {

std::vector<std::string> labels_of(const std::vector<Region>& regions) {
  std::vector<std::string> labels;
  for (const auto& region : regions) labels.push_back(region.label);
  return labels;
}

const std::vector<Region> kRegions{{"a \"red\" square", "", {0.1, 0.2, 0.5, 0.7}}, {"text", "SALE", {0, 0, 1, 1}}};

}  // namespace

TEST(Regions, MarksAreReadAsTransformersReadThem) {
  const auto regions = regions_of_marks("blue bar<loc_50><loc_100><loc_900><loc_300>dot<loc_400><loc_500><loc_600><loc_800><loc_1>");
  EXPECT_THAT(labels_of(regions), ::testing::ElementsAre("blue bar", "dot"));
  // The golden case of a picture of 40 by 56 pixels says [2, 5, 36, 16] and [16, 28, 24, 44].
  EXPECT_EQ(static_cast<int>(regions[0].box.left * 40), 2);
  EXPECT_EQ(static_cast<int>(regions[0].box.top * 56), 5);
  EXPECT_EQ(static_cast<int>(regions[0].box.right * 40), 36);
  EXPECT_EQ(static_cast<int>(regions[1].box.bottom * 56), 44);
  const auto both = regions_of_marks("cat<loc_1><loc_2><loc_3><loc_4><loc_5><loc_6><loc_7><loc_8>");
  EXPECT_THAT(labels_of(both), ::testing::ElementsAre("cat", "cat"));
  EXPECT_TRUE(regions_of_marks("").empty());
}

TEST(Regions, WhatIsBrokenIsPassedOverAndAnAnswerWithoutAnyBoxIsNamed) {
  EXPECT_THAT(labels_of(regions_of_marks("cut<loc_1><loc_2>whole<loc_1><loc_2><loc_3><loc_4><seg>back<loc_9><loc_9><loc_3><loc_4>")),
              ::testing::ElementsAre("whole"));
  for (const char* broken :
       {"a cat on a mat", "cat<loc_1><loc_2><loc_3>", "<loc_1><loc_2><loc_3><loc_4>", "cat<loc_7><loc_2><loc_3><loc_4>", "a<loc_"})
    EXPECT_THROW(regions_of_marks(broken), Error) << broken;
}

TEST(Regions, WordsHaveTheRectangleOfTheirCorners) {
  const auto words = words_of_marks("SALE<loc_120><loc_310><loc_480><loc_300><loc_490><loc_400><loc_110><loc_395>10%<loc_1>");
  ASSERT_EQ(words.size(), 1);
  EXPECT_EQ(words[0].words, "SALE");
  EXPECT_EQ(std::llround(words[0].box.left * 10000), 1105);
  EXPECT_EQ(std::llround(words[0].box.top * 10000), 3005);
  EXPECT_EQ(std::llround(words[0].box.right * 10000), 4905);
  EXPECT_TRUE(words_of_marks("no text at all").empty());
}

TEST(Regions, ListsOfJsonAreReadWithinFencesAndWhereTheyWereCut) {
  const std::string list =
      R"([{"bbox_2d": [100, 200, 500, 700], "label": "cat"}, {"bbox_2d": [0, 0, 2000, 50], "text_content": "SALE"}, {"bbox_2d": [9, 9, 1, 1], "label": "x"}])";
  for (const auto& answer :
       {list, "Here it is:\n```json\n" + list + "\n```", list.substr(0, list.find(", {\"bbox_2d\": [9")) + ", {\"bbox_2d\": [3"}) {
    const auto regions = regions_of_json(answer, {});
    ASSERT_EQ(regions.size(), 2) << answer;
    EXPECT_EQ(regions[0].label, "cat");
    EXPECT_EQ(regions[0].box.bottom, 0.7);
    EXPECT_EQ(regions[1].words, "SALE");
    EXPECT_EQ(regions[1].box.right, 1);
  }
  EXPECT_EQ(regions_of_json(list, {.height = 1400, .width = 1000})[0].box.bottom, 0.5);
  EXPECT_TRUE(regions_of_json("[]", {}).empty());
  for (const char* broken :
       {"I see a cat.", "[1, 2]", "[{\"bbox_2d\": [1, 2, 3], \"label\": \"cat\"}]", "{\"bbox_2d\": [1, 2, 3, 4]}", "]["})
    EXPECT_THROW(regions_of_json(broken, {}), Error) << broken;
}

TEST(LaidOut, FormsAreThoseThatModelsWereTrainedWith) {
  EXPECT_EQ(
      laid_out({.name = "elements"}, "a shop", kRegions, 480, 640),
      R"({"high_level_description":"a shop","compositional_deconstruction":{"background":"","elements":[)"
      R"({"type":"obj","bbox":[200,100,700,500],"desc":"a \"red\" square"},{"type":"text","bbox":[0,0,1000,1000],"text":"SALE","desc":"text"}]}})");
  EXPECT_EQ(
      laid_out({.name = "items"}, "a shop", kRegions, 480, 640),
      R"({"summary":{"canvas":"single","caption":"a shop"},"items":[{"label":"object","caption":"a \"red\" square","bbox":[-144,-256,96,0]},)"
      R"({"label":"text","caption":"text","text":"SALE","bbox":[-240,-320,240,320]}],"bbox_coord_space":"abs_centralized","bbox_format":"yxyx"})");
  const auto small = nlohmann::json::parse(laid_out({.name = "items", .most_pixels = 240 * 320}, "", kRegions, 480, 640));
  EXPECT_EQ(small["items"][1]["bbox"], (std::vector<int>{-120, -160, 120, 160}));
  EXPECT_EQ(laid_out({}, "a shop", kRegions, 480, 640), "a shop");
}

}  // namespace burnish::captioning
