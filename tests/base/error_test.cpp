#include "base/error.h"

#include <gtest/gtest.h>

using namespace burnish;

TEST(OneLine, HasNoControlCharacters) { EXPECT_EQ(one_line("a\nb\tc\x1b[31m\x7f"), "a b c [31m "); }

TEST(OneLine, LeavesOutTheMiddleOfWordsLongerThanAnyPath) {
  const std::string path(500, 'p'), name(3000, 'n');
  EXPECT_EQ(one_line("cannot read " + path), "cannot read " + path);
  EXPECT_EQ(one_line("no " + name + " here"), "no " + std::string(200, 'n') + "...(3000 bytes)..." + std::string(200, 'n') + " here");
  std::string characters;
  for (int i = 0; i < 1000; ++i) characters += "é";
  auto shown = one_line(" x" + characters);
  EXPECT_EQ(shown.find("\xC3..."), std::string::npos) << "no half of a character";
  EXPECT_LT(shown.size(), 500u);
}
