#include "data/captions.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "tests/scratch.h"

using namespace burnish;
using data::CaptionRule;
using data::Captions;
using ::testing::HasSubstr;

namespace {

std::string draw(const CaptionRule& rule, const Captions& captions, uint64_t key) {
  CounterRandom random(key);
  return data::draw_caption(rule, captions, random);
}

/// How often each caption is drawn.
std::map<std::string, int> drawn(const CaptionRule& rule, const Captions& captions, int times) {
  std::map<std::string, int> found;
  for (int i = 0; i < times; ++i) ++found[draw(rule, captions, static_cast<uint64_t>(i))];
  return found;
}

}  // namespace

TEST(Captions, WithoutARuleStayAsTheyAre) {
  Captions captions{{" a,  b \n{x|y} "}, {"other"}};
  EXPECT_FALSE(CaptionRule().varies());
  EXPECT_EQ(draw({}, captions, 1), captions[0].text);
  EXPECT_EQ(data::plain_caption({}, captions), captions[0].text);
}

TEST(Captions, EveryOrderOfTagsIsDrawnAsOften) {
  auto found = drawn({.shuffle = true}, {{"a, b,c"}}, 6000);
  EXPECT_EQ(found.size(), 6u);
  for (const auto& [caption, count] : found) EXPECT_NEAR(count, 1000, 150) << caption;
  EXPECT_EQ(data::plain_caption({.shuffle = true}, {{"a, b,c"}}), "a, b, c");
}

TEST(Captions, KeptTagsKeepTheirPlace) {
  CaptionRule by_number{.shuffle = true, .tag_dropout = 0.5, .keep_tokens = 2};
  for (const auto& [caption, count] : drawn(by_number, {{"k, l, a, b, c"}}, 200)) EXPECT_TRUE(caption.starts_with("k, l")) << caption;
  CaptionRule by_separator{.shuffle = true, .keep_tokens = 1, .keep_separator = "|||"};
  auto found = drawn(by_separator, {{"k, l ||| a, b ||| z"}}, 200);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_TRUE(found.contains("k, l, a, b, z") && found.contains("k, l, b, a, z"));
  EXPECT_EQ(drawn(by_separator, {{"k, a, b"}}, 200).size(), 2u) << "without the separator by number";
  EXPECT_EQ(data::plain_caption({.keep_separator = "|||"}, {{"k ||| a"}}), "k, a");
}

TEST(Captions, TagsAreLeftOutOneByOne) {
  CaptionRule rule{.tag_dropout = 0.25};
  int first = 0, last = 0;
  for (const auto& [caption, count] : drawn(rule, {{"one, two, three"}}, 4000)) {
    auto tags = split_list(caption);
    first += contains(tags, "one") ? 0 : count;
    last += contains(tags, "three") ? 0 : count;
  }
  EXPECT_NEAR(first, 1000, 120);
  EXPECT_NEAR(last, 1000, 120);
  EXPECT_EQ(draw({.tag_dropout = 1}, {{"one, two"}}, 3), "");
}

TEST(Captions, ASecondarySeparatorHoldsTagsTogether) {
  auto found = drawn({.shuffle = true, .secondary_separator = ";"}, {{"sky;clouds, sea;waves"}}, 100);
  EXPECT_EQ(found.size(), 2u);
  EXPECT_TRUE(found.contains("sky, clouds, sea, waves") && found.contains("sea, waves, sky, clouds"));
}

TEST(Captions, AlternativesAreDrawnAndMayHoldOthers) {
  auto found = drawn({.wildcards = true}, {{"a {red|green|very {dark|light} green} {{cat}} }"}}, 9000);
  std::map<std::string, int> expected{
      {"a red {cat} }", 3000}, {"a green {cat} }", 3000}, {"a very dark green {cat} }", 1500}, {"a very light green {cat} }", 1500}};
  ASSERT_EQ(found.size(), 4u);
  for (const auto& [caption, count] : expected) EXPECT_NEAR(found[caption], count, 250) << caption;
  EXPECT_EQ(data::plain_caption({.wildcards = true}, {{"{a|b} {|c}"}}), "a ");
}

TEST(Captions, OneOfSeveralIsDrawnByWeight) {
  auto found = drawn({.wildcards = true}, {{"a", 3}, {"b", 1}}, 4000);
  EXPECT_NEAR(found["a"], 3000, 150);
  EXPECT_NEAR(found["b"], 1000, 150);
}

TEST(Captions, PrefixAndSuffixStandAround) {
  CaptionRule rule{.prefix = "sks,", .suffix = ", photo", .shuffle = true, .keep_tokens = 1};
  for (const auto& [caption, count] : drawn(rule, {{"a, b"}}, 50)) EXPECT_TRUE(caption.starts_with("sks, ")) << caption;
  EXPECT_EQ(data::plain_caption({.prefix = "p", .suffix = "s"}, {{"text"}}), "p text s");
}

TEST(Captions, EqualKeysDrawEqualCaptions) {
  CaptionRule rule{.wildcards = true, .shuffle = true, .tag_dropout = 0.3};
  Captions captions{{"a, b, {c|d}, e, f"}, {"g, h, i"}};
  std::set<std::string> different;
  for (uint64_t key = 0; key < 50; ++key) {
    EXPECT_EQ(draw(rule, captions, key), draw(rule, captions, key));
    different.insert(draw(rule, captions, key));
  }
  EXPECT_GT(different.size(), 20u);
}

TEST(Captions, RulesThatMakeNoSenseAreRefused) {
  EXPECT_THAT(test::error_of([] { data::check(CaptionRule{.dropout = 1.5}); }, Exit::config), HasSubstr("caption_dropout must lie"));
  EXPECT_THAT(test::error_of([] { data::check(CaptionRule{.tag_dropout = -1}); }, Exit::config), HasSubstr("tag_dropout_rate must lie"));
  EXPECT_THAT(test::error_of([] { data::check(CaptionRule{.separator = ""}); }, Exit::config), HasSubstr("caption_separator is empty"));
}

TEST(Captions, ATriggerWordIsInEveryCaption) {
  EXPECT_EQ(data::with_trigger_word("sks", "a dog"), "sks a dog");
  EXPECT_EQ(data::with_trigger_word("sks", "a [trigger] dog, [name]"), "a sks dog, sks");
  EXPECT_EQ(data::with_trigger_word("sks", "a dog called sks"), "a dog called sks") << "it is there already";
  EXPECT_EQ(data::with_trigger_word("sks", ""), "sks");
  EXPECT_EQ(data::with_trigger_word("", "a [trigger] dog"), "a [trigger] dog");
}

TEST(OtherWord, TakesThePlaceOfWholeWords) {
  EXPECT_EQ(data::with_other_word("sks, a sks dog", "sks", "a"), "a, a a dog");
  EXPECT_EQ(data::with_other_word("masks, sksy, sks_1, psks", "sks", "x"), "masks, sksy, sks_1, psks") << "parts of other words";
  EXPECT_EQ(data::with_other_word("\xC3\xA9sks", "sks", "x"), "\xC3\xA9sks") << "letters beyond ASCII are letters";
  EXPECT_EQ(data::with_other_word("<sks>x", "<sks>", "dog "), "dog x") << "a word that ends in no letter";
  EXPECT_EQ(data::with_other_word("a dog", "", "x"), "a dog");
  EXPECT_EQ(data::with_other_word("sks sks", "sks", "sks sks"), "sks sks sks sks");
}
