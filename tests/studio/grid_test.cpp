// Lists of prompts, seeds, strengths and so on, as lines that `burnish sample` draws.
#include "studio/grid.h"

#include <gmock/gmock.h>

#include "base/error.h"

using namespace burnish;
using namespace burnish::studio;
using nlohmann::json;
using testing::HasSubstr;

namespace {

const json kLoras =
    json::parse(R"([{"place": "loras", "name": "a.safetensors", "strength": 0.5}, {"place": "loras", "name": "b.safetensors"}])");

std::string refusal_of(const json& wish) {
  try {
    make_grid(wish);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(Grid, CombinesWhatIsListedAndChangesTheModelLast) {
  const auto grid =
      make_grid({{"loras", kLoras}, {"prompts", {"a cat", "a dog --w 64"}}, {"seeds", {7}}, {"strengths", {0, 1}}, {"guidance", {3.5}}});
  EXPECT_EQ(grid.prompts,
            "a cat --l 3.5 --am 0,0 --d 7\n"
            "a dog --w 64 --l 3.5 --am 0,0 --d 7\n"
            "a cat --l 3.5 --am 0.5,1 --d 7\n"
            "a dog --w 64 --l 3.5 --am 0.5,1 --d 7\n");
  EXPECT_EQ(grid.num_pictures, 4);
  EXPECT_EQ(grid.cells[1], json::parse(R"({"strength": 0, "guidance": 3.5, "prompt": "a dog --w 64", "seed": 7, "picture": 1})"));
}

TEST(Grid, DrawsOnceWhatComesToTheSame) {
  const auto grid = make_grid({{"loras", kLoras}, {"apart", true}, {"prompts", {"a cat"}}, {"strengths", {0, 2}}});
  EXPECT_EQ(grid.prompts, "a cat --am 0,0 --d 0\na cat --am 1,0 --d 0\na cat --am 0,2 --d 0\n");
  ASSERT_EQ(grid.cells.size(), 4u);
  EXPECT_EQ(grid.cells[0]["picture"], 0);
  EXPECT_EQ(grid.cells[1]["lora"], "a.safetensors");
  EXPECT_EQ(grid.cells[2]["picture"], 0) << "without either LoRA";
  EXPECT_EQ(grid.cells[2]["lora"], "b.safetensors");
}

TEST(Grid, HasPicturesWithoutGroupsOfBlocksBehindWholeOnes) {
  const json one = json::array({kLoras[1]});
  const auto grid = make_grid({{"loras", one}, {"prompts", {"a cat", "a dog"}}, {"without_blocks", 2}});
  EXPECT_EQ(grid.prompts, "a cat --am 1 --d 0\na dog --am 1 --d 0\n") << "sample draws the others by itself";
  EXPECT_EQ(grid.num_pictures, 6);
  ASSERT_EQ(grid.cells.size(), 6u);
  EXPECT_EQ(grid.cells[1]["without"], 0);
  EXPECT_EQ(grid.cells[5], json::parse(R"({"prompt": "a dog", "seed": 0, "strength": 1.0, "without": 2, "picture": 5})"));
  EXPECT_THAT(refusal_of({{"loras", kLoras}, {"without_blocks", 2}}), HasSubstr("out of one LoRA"));
  EXPECT_THAT(refusal_of({{"loras", one}, {"strengths", {0, 1}}, {"without_blocks", 2}}), HasSubstr("at one strength"));
  EXPECT_THAT(refusal_of({{"loras", one}, {"without_blocks", 1.5}}), HasSubstr("must be a whole number"));
}

TEST(Grid, LeavesToSampleWhatIsNotListed) {
  EXPECT_EQ(make_grid({{"loras", json::array()}}).prompts, " --d 0\n");
  EXPECT_EQ(make_grid({{"loras", json::array()}, {"leaves_out_loras", true}, {"sizes", {{64, 32}}}, {"steps", {2}}}).prompts,
            " --w 64 --h 32 --s 2 --am 0 --d 0\n")
      << "a run's own LoRA is left out where none is chosen";
}

TEST(Grid, RefusesWhatNoLineCanBe) {
  EXPECT_THAT(refusal_of({{"loras", json::array()}, {"prompts", {"# a cat"}}}), HasSubstr("begins with #"));
  EXPECT_EQ(make_grid({{"loras", json::array()}, {"prompts", {"a cat\non a sofa"}}}).prompts, "a cat on a sofa --d 0\n");
  json many{{"loras", json::array()}, {"seeds", json::array()}};
  for (int i = 0; i < 1001; ++i) many["seeds"].push_back(i);
  EXPECT_THAT(refusal_of(many), HasSubstr("more than 1000 pictures"));
}

TEST(Grid, RefusesWhatNoPictureCanBeDrawnBy) {
  for (const char* wish : {R"({"sizes": [[0, 64]]})", R"({"sizes": [[64, 1000000]]})", R"({"sizes": [[64]]})", R"({"sizes": ["64x64"]})",
                           R"({"seeds": [-1]})", R"({"seeds": [1e300]})", R"({"seeds": [18446744073709551615]})", R"({"seeds": ["x"]})",
                           R"({"steps": [0]})", R"({"steps": [99999999]})", R"({"guidance": [1e300]})", R"({"guidance": ["x"]})"}) {
    auto value = json::parse(wish);
    value["loras"] = kLoras;
    EXPECT_THAT(refusal_of(value), testing::AnyOf(HasSubstr("must be"), HasSubstr("a size is a list"))) << wish;
  }
}
