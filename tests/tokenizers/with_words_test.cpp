// Words that a tokenizer knows beside its vocabulary.
#include <gtest/gtest.h>

#include "tests/places.h"
#include "tokenizers/tokenizer.h"

using namespace burnish;
using Ids = std::vector<int64_t>;

namespace {

const std::filesystem::path kAssets = std::filesystem::path(test::kCheckout) / "assets/tiny-flux";

Ids operator+(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// What the tokenizers of FLUX.1 make of words is what they make of the texts between them, with the words' ids.
void expect_words(const std::shared_ptr<const tokenizers::Tokenizer>& plain) {
  const auto first = plain->num_ids() + 100;
  const auto with = tokenizers::with_words(plain, {{"<it>", {first, first + 1}}, {"<it>s", {first + 2}}});
  auto inner = [&](const char* text) { return plain->encode_inner(text); };
  EXPECT_EQ(with->encode_inner("a <it> tree"), (inner("a ") + Ids{first, first + 1} + inner(" tree")));
  EXPECT_EQ(with->encode_inner("<it><it>s,"), (Ids{first, first + 1, first + 2} + inner(",")));
  EXPECT_EQ(with->encode_inner("<IT>"), inner("<IT>"));
  EXPECT_EQ(with->encode("red apple"), plain->encode("red apple"));
  EXPECT_EQ(with->encode(""), plain->encode(""));
  const auto padded = with->encode_padded("a <it> tree", 20), otherwise = plain->encode_padded("a tree", 20);
  EXPECT_EQ(padded.num_tokens, std::ssize(with->encode("a <it> tree")));
  EXPECT_EQ(padded.ids.back(), otherwise.ids.back());
  EXPECT_EQ(padded.ids[static_cast<size_t>(padded.num_tokens) - 1], plain->end_id());
}

}  // namespace

TEST(WithWords, StandBetweenWhatClipReads) { expect_words(tokenizers::load_clip(kAssets / "tokenizer")); }
TEST(WithWords, StandBetweenWhatT5Reads) { expect_words(tokenizers::load_t5(kAssets / "tokenizer_2")); }
