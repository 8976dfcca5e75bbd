// Quotations that are tokens character by character, beside diffusers' pipeline (tests/golden/make_longcat_image.py).
#include "tokenizers/spelled_quotes.h"

#include <gtest/gtest.h>

#include "io/json.h"
#include "tests/golden.h"

using namespace burnish;
using Ids = std::vector<int64_t>;

namespace {

const tokenizers::ChatTemplate kChat{"<|im_start|>user\nit's 'so'\n", "<|im_end|>"};

std::unique_ptr<tokenizers::ChatTokenizer> spelling() {
  return tokenizers::load_qwen_spelling_quotes(test::golden_path("tokenizers/qwen_json"), kChat);
}

}  // namespace

TEST(SpelledQuotes, AreThoseOfDiffusers) {
  const auto tokenizer = spelling();
  const auto expected = io::read_json(test::golden_path("longcat_image_pipeline/quotes.json"));
  ASSERT_GT(expected.size(), 10u);
  for (const auto& [text, ids] : expected.items()) EXPECT_EQ(tokenizer->encode_bare(text), ids.get<Ids>()) << text;
}

/// Where a text has several words with an apostrophe, diffusers puts one of them in the place of another.
TEST(SpelledQuotes, ApostrophesOfSeveralWordsOpenNone) {
  const auto tokenizer = spelling();
  const auto plain = tokenizers::load_qwen(test::golden_path("tokenizers/qwen_json"));
  for (const char* text : {"don't say it's a cat's", "the cat's, the dog's and the tree's"})
    EXPECT_EQ(tokenizer->encode_bare(text), plain->encode_bare(text)) << text;
  EXPECT_NE(tokenizer->encode_bare("it's 'a cat', isn't it"), plain->encode_bare("it's 'a cat', isn't it"));
}

TEST(SpelledQuotes, WhatStandsAroundATextIsCutByItself) {
  const auto tokenizer = spelling();
  const auto plain = tokenizers::load_qwen(test::golden_path("tokenizers/qwen_json"));
  auto expected = plain->encode_bare(kChat.before);
  EXPECT_EQ(tokenizer->num_before(), std::ssize(expected));
  for (const auto& more : {tokenizer->encode_bare("\n 'a' cat"), plain->encode_bare(kChat.after)})
    expected.insert(expected.end(), more.begin(), more.end());
  EXPECT_EQ(tokenizer->encode("\n 'a' cat"), expected);
  const auto padded = tokenizer->encode_padded("cat", 60);
  EXPECT_EQ(padded.ids.size(), 60u);
  EXPECT_EQ(padded.num_tokens, std::ssize(tokenizer->encode("cat")));
}
