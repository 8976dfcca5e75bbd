#include "base/number.h"

#include <gtest/gtest.h>

using namespace burnish;

TEST(Number, IsTheWholeText) {
  EXPECT_EQ(parse_number<int64_t>("42"), 42);
  EXPECT_EQ(parse_number<int64_t>("-7"), -7);
  EXPECT_EQ(parse_number<double>("-0.25"), -0.25);
  EXPECT_EQ(parse_number<double>("+1e-3"), 1e-3);
  for (const char* text : {"", " ", "4 ", " 4", "4.", "4,5", "0x10", "four", "+-4", "++4", "+"})
    EXPECT_EQ(parse_number<int64_t>(text), std::nullopt) << text;
  for (const char* text : {"", "1.5x", "1,5", "0x10", "+-1", "inf", "-inf", "nan", "1e999"})
    EXPECT_EQ(parse_number<double>(text), std::nullopt) << text;
}

TEST(Number, ThatIsNotFiniteIsOneForWhoSaysSo) {
  EXPECT_EQ(parse_any_number<double>("-inf"), -INFINITY);
  EXPECT_TRUE(std::isnan(parse_any_number<double>("nan").value()));
  EXPECT_EQ(parse_any_number<double>("nan5"), std::nullopt);
}

TEST(Number, FitsItsType) {
  EXPECT_EQ(parse_number<int16_t>("32767"), 32767);
  EXPECT_EQ(parse_number<int16_t>("32768"), std::nullopt);
  EXPECT_EQ(parse_number<uint32_t>("-1"), std::nullopt);
}

TEST(Number, ListsAreOfNumbersAlone) {
  EXPECT_EQ(parse_numbers<double>("-1, 0,+0.5"), (std::vector<double>{-1, 0, 0.5}));
  EXPECT_EQ(parse_numbers<double>(""), std::vector<double>());
  EXPECT_EQ(parse_numbers<int64_t>("1,2,three"), std::nullopt);
}
