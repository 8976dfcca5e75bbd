#include "captioning/caption_text.h"

#include <gtest/gtest.h>

namespace burnish::captioning {

const Prompts kPrompts{.sentences = "Describe this {what}.", .tags = "List tags of this {what}.", .subject = "Call it \"{word}\"."};

TEST(CaptionText, SentencesBecomeOneLine) {
  EXPECT_EQ(caption_of({}, {.ids = {}, .text = "A cat.\n\nIt  sleeps."}, "old"), "A cat. It sleeps.");
}

TEST(CaptionText, WhatIsCutLosesItsLastSentenceOrTag) {
  EXPECT_EQ(caption_of({}, {.ids = {}, .text = "A cat. It sl", .is_cut = true}, ""), "A cat.");
  EXPECT_EQ(caption_of({}, {.ids = {}, .text = "A cat that", .is_cut = true}, ""), "A cat that");
  EXPECT_EQ(caption_of({.is_tags = true}, {.ids = {}, .text = "cat, sofa, bl", .is_cut = true}, ""), "cat, sofa");
}

TEST(CaptionText, TagsStandOnceAndWithoutMarks) {
  EXPECT_EQ(caption_of({.is_tags = true}, {.ids = {}, .text = "- cat\n- red sofa\n- cat, sun light."}, ""), "cat, red sofa, sun light");
}

TEST(CaptionText, TheTriggerWordStandsBeforeACaptionThatDoesNotHoldIt) {
  const CaptionRule rule{.trigger = "sks"};
  EXPECT_EQ(caption_of(rule, {.ids = {}, .text = "A cat."}, ""), "sks, A cat.");
  EXPECT_EQ(caption_of(rule, {.ids = {}, .text = "The sks cat."}, ""), "The sks cat.");
  EXPECT_EQ(caption_of(rule, {.ids = {}, .text = ""}, ""), "sks");
  EXPECT_NE(prompt_of(rule, false, kPrompts).find("\"sks\""), std::string::npos);
}

TEST(CaptionText, WhatIsAddedGoesBehindWhatIsThere) {
  EXPECT_EQ(caption_of({.is_tags = true, .trigger = "sks", .is_added = true}, {.ids = {}, .text = "cat"}, "sks, sofa"), "sks, sofa, cat");
  EXPECT_EQ(caption_of({.is_added = true}, {.ids = {}, .text = "It sleeps."}, "A cat."), "A cat. It sleeps.");
}

TEST(CaptionText, PromptsAskAboutPicturesOrClipsAndGiveWayToOnesOwn) {
  EXPECT_NE(prompt_of({}, false, kPrompts).find("this image"), std::string::npos);
  EXPECT_NE(prompt_of({.is_tags = true}, true, kPrompts).find("this video"), std::string::npos);
  EXPECT_EQ(prompt_of({.prompt = "What is it?"}, true, kPrompts), "What is it?");
}

}  // namespace burnish::captioning
