// Prompt files: a prompt a line, with flags behind it.
#include "drawing/picture.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/scratch.h"

using namespace burnish;
using drawing::Picture;
using test::error_of;
using testing::HasSubstr;

namespace {

const Picture kDefaults{.prompt = "",
                        .negative_prompt = "blurry",
                        .seed = {},
                        .extent = {.height = 48, .width = 64},
                        .num_inference_steps = 8,
                        .guidance = {2, 0.5}};

std::vector<Picture> parse(std::string_view text) { return drawing::parse_prompts(text, "prompts.txt", kDefaults); }

std::vector<std::string> prompts(std::string_view text) {
  std::vector<std::string> found;
  for (const auto& picture : parse(text)) found.push_back(picture.prompt);
  return found;
}

std::vector<int64_t> seeds(const std::vector<Picture>& pictures) {
  std::vector<int64_t> found;
  for (const auto& picture : pictures) found.push_back(picture.seed.value());
  return found;
}

using Prompts = std::vector<std::string>;
using Seeds = std::vector<int64_t>;

}  // namespace

TEST(PromptFile, IsAPromptALine) {
  EXPECT_EQ(prompts("a cat\n\n  a dog, sleeping \r\n\t\nTür"), (Prompts{"a cat", "a dog, sleeping", "Tür"}));
  EXPECT_EQ(prompts("a cat\n"), Prompts{"a cat"});
  EXPECT_EQ(prompts("\xEF\xBB\xBF"
                    "a cat\na dog"),
            (Prompts{"a cat", "a dog"}));
  EXPECT_EQ(prompts(""), Prompts{});
  EXPECT_EQ(prompts(" \n\r\n"), Prompts{});
  EXPECT_EQ(prompts("# cats\n a cat #1\n  #a dog --w 3\n"), Prompts{"a cat #1"}) << "lines that begin with # are notes, as in sd-scripts";
}

TEST(PromptFile, SaysHowManyFramesAClipHas) {
  EXPECT_EQ(parse("a cat")[0].extent.frames, 1);
  EXPECT_EQ(parse("a cat --f 49 --w 32")[0].extent, (Extent{.frames = 49, .height = 48, .width = 32}));
  EXPECT_THAT(error_of([] { parse("a cat --f 0"); }), HasSubstr("line 1: --f must be a whole number of at least 1, not '0'"));
}

TEST(PromptFile, LinesWithoutFlagsTakeTheDefaults) {
  auto picture = parse("a cat")[0];
  EXPECT_EQ(picture.negative_prompt, "blurry");
  EXPECT_FALSE(picture.seed.has_value());
  EXPECT_EQ(picture.extent.height, 48);
  EXPECT_EQ(picture.extent.width, 64);
  EXPECT_EQ(picture.num_inference_steps, 8);
  EXPECT_EQ(picture.guidance.scale, 2);
  EXPECT_EQ(picture.guidance.rescale, 0.5);
}

TEST(PromptFile, FlagsReplaceThemForTheirLine) {
  auto pictures = parse("a cat --w 512 --h 256\t--d 42 --s 20 --l 7.5 --n low quality, grey\na dog --n\n--s 3");
  EXPECT_EQ(pictures[0].prompt, "a cat");
  EXPECT_EQ(pictures[0].extent.width, 512);
  EXPECT_EQ(pictures[0].extent.height, 256);
  EXPECT_EQ(pictures[0].seed, 42);
  EXPECT_EQ(pictures[0].num_inference_steps, 20);
  EXPECT_EQ(pictures[0].guidance.scale, 7.5);
  EXPECT_EQ(pictures[0].negative_prompt, "low quality, grey");
  EXPECT_EQ(pictures[1].prompt, "a dog");
  EXPECT_EQ(pictures[1].negative_prompt, "");
  EXPECT_EQ(pictures[1].extent.width, 64);
  EXPECT_EQ(pictures[2].prompt, "");
  EXPECT_EQ(pictures[2].num_inference_steps, 3);
}

TEST(PromptFile, ReferencePicturesOfALineTakeThePlaceOfTheDefaults) {
  auto defaults = kDefaults;
  defaults.references = {"all.png"};
  auto pictures = drawing::parse_prompts("a cat\na dog --ci my dog.png --s 3 --ci b.png", "prompts.txt", defaults);
  EXPECT_EQ(pictures[0].references, std::vector<std::string>{"all.png"});
  EXPECT_EQ(pictures[1].references, (std::vector<std::string>{"my dog.png", "b.png"}));
  EXPECT_EQ(pictures[1].num_inference_steps, 3);
  EXPECT_THAT(error_of([&] { parse("a --ci"); }), HasSubstr("line 1: --ci must name the file of a reference picture"));
}

TEST(PromptFile, StrengthsOfALineAreOneForEachLoraOrOneForAll) {
  auto defaults = kDefaults;
  defaults.strengths = {1, 0.5};
  auto lines = [&](const std::string& text) { return drawing::parse_prompts(text, "prompts.txt", defaults); };
  auto pictures = lines("a cat\na cat --am 0.25,-2 --s 3\na cat --am 0");
  EXPECT_EQ(pictures[0].strengths, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(pictures[1].strengths, (std::vector<double>{0.25, -2}));
  EXPECT_EQ(pictures[1].num_inference_steps, 3);
  EXPECT_EQ(pictures[2].strengths, (std::vector<double>{0, 0}));
  EXPECT_THAT(error_of([&] { lines("a --am 1,2,3"); }), HasSubstr("line 1: --am has 3 strengths, and 2 LoRAs are drawn with"));
  EXPECT_THAT(error_of([&] { lines("a --am"); }), HasSubstr("--am has 0 strengths"));
  EXPECT_THAT(error_of([&] { lines("a --am much"); }), HasSubstr("--am must be a number, not 'much'"));
  EXPECT_THAT(error_of([&] { parse("a --am 1"); }), HasSubstr("--am is the strength of LoRAs, and none are drawn with"));
}

TEST(PromptFile, DashesOfAPromptAreNoFlags) {
  EXPECT_EQ(prompts("a cat -- asleep\nmid--word\nup --\na --- b\n--2 b"),
            (Prompts{"a cat -- asleep", "mid--word", "up --", "a --- b", "--2 b"}));
}

TEST(PromptFile, NoPartOfAJsonObjectIsAFlag) {
  const std::string object = R"({"a": "b -- c --w {\"}", "d": {"e": "--s 3"}})";
  const auto pictures = parse(object + " --s 4\n{not closed --s 5\n{} more --d 7");
  ASSERT_EQ(pictures.size(), 3u);
  EXPECT_EQ(pictures[0].prompt, object);
  EXPECT_EQ(pictures[0].num_inference_steps, 4);
  EXPECT_EQ(pictures[1].prompt, "{not closed");
  EXPECT_EQ(pictures[1].num_inference_steps, 5);
  EXPECT_EQ(pictures[2].prompt, "{} more");
}

TEST(PromptFile, ErrorsNameTheLine) {
  auto error = [](std::string_view text) { return error_of([&] { parse(text); }); };
  EXPECT_THAT(error("a\n\nb --ww 3"), HasSubstr("prompts.txt line 3: --ww is not known"));
  for (const char* value : {"", "0", "-8", "8.5", "8px", "99999999999999999999"}) {
    EXPECT_THAT(error(std::string("a --w ") + value),
                HasSubstr("line 1: --w must be a whole number of at least 1, not '" + std::string(value) + "'"));
  }
  EXPECT_THAT(error("a --d -1"), HasSubstr("--d must be a whole number of at least 0"));
  EXPECT_THAT(error("a --l high"), HasSubstr("--l must be a number, not 'high'"));
  EXPECT_THAT(error("a --l inf"), HasSubstr("--l must be a number"));
  EXPECT_THAT(error("a --l"), HasSubstr("--l must be a number, not ''"));
  EXPECT_THAT(error("a cat\nT\xFCr"), HasSubstr("prompts.txt line 2 is not UTF-8"));
}

TEST(Numbered, CountsSeedsOverAllPicturesAndOverCopiesOfOneThatHasItsOwn) {
  EXPECT_EQ(seeds(drawing::numbered(parse("a\nb"), 2, 10)), (Seeds{10, 11, 12, 13}));
  auto pictures = drawing::numbered(parse("a\nb --d 5\nc"), 2, 0);
  EXPECT_EQ(seeds(pictures), (Seeds{0, 1, 5, 6, 4, 5}));
  EXPECT_EQ(pictures[3].prompt, "b");
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(seeds(drawing::numbered(parse("a"), 3, kMost)), (Seeds{kMost, 0, 1}));
}
