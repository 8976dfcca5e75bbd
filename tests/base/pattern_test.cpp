#include "base/pattern.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/scratch.h"

using namespace burnish;
using ::testing::HasSubstr;

namespace {

bool matches(const std::string& pattern, const std::string& name) { return Pattern("test", "layers", pattern).matches(name); }

std::string refusal(const std::string& pattern) {
  return test::error_of([&] { Pattern("test", "layers", pattern); }, Exit::config);
}

}  // namespace

TEST(Pattern, MatchesWholeNames) {
  EXPECT_TRUE(matches(R"(blocks\.[0-3]\..*to_(q|k))", "blocks.2.attn.to_k"));
  EXPECT_FALSE(matches(R"(blocks\.[0-3]\..*to_(q|k))", "blocks.2.attn.to_kv"));
  EXPECT_TRUE(matches("(?=.*attn)(?!.*to_v).*", "blocks.2.attn.to_k"));
  EXPECT_FALSE(matches("(?=.*attn)(?!.*to_v).*", "blocks.2.attn.to_v"));
  EXPECT_FALSE(matches("to_q", "attn.to_q"));
}

TEST(Pattern, ManyWaysToMatchEndAtOnce) {
  std::string name(300, 'a');
  for (const char* pattern : {"(a*)*b", "(a|a)*b", "(a+)+$b", "(.*)*(.*)*(.*)*b", "(?=(a*)*b).*"})
    EXPECT_FALSE(matches(pattern, name)) << pattern;
  EXPECT_TRUE(matches("(a*)*", name));
  EXPECT_FALSE(matches("(a?){2000}b", name));
  EXPECT_TRUE(matches(std::string(499, '(') + "a*" + std::string(499, ')'), name));
}

TEST(Pattern, ATextIsAnExpressionForItselfAlone) {
  for (const char* text : {"blocks.0.to_q", "a(b)[c]{d}", "a^b$c|d\\e", "x*y+z?"}) {
    EXPECT_TRUE(matches(literally(text), text)) << text;
    EXPECT_FALSE(matches(literally(text), std::string(text) + "x")) << text;
  }
  EXPECT_FALSE(matches(literally("to.q"), "to_q"));
}

TEST(Pattern, RefusesWhatIsNoExpressionOrTooMuch) {
  EXPECT_THAT(refusal("to_(q"), HasSubstr("layers: 'to_(q' is neither a name nor a regular expression"));
  EXPECT_THAT(refusal(R"((a)\1)"), HasSubstr("neither a name nor a regular expression"));
  EXPECT_THAT(refusal(std::string(1001, '(')), HasSubstr("1001 and 0"));
  EXPECT_THAT(refusal("(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e).*"), HasSubstr("may have 1000 characters and 4 looks ahead"));
  EXPECT_THAT(refusal("((a{1000}){1000}){1000}"), HasSubstr("neither a name nor a regular expression"));
}
