// Pictures side by side under their labels.
#include "data/labelled_row.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

using namespace burnish;

TEST(LabelledRow, HasEachPictureBelowWhatItIsCalled) {
  const auto first = at::full({100, 40, 3}, 7, at::kByte), second = at::full({100, 40, 3}, 9, at::kByte);
  const auto row = data::labelled_row({first, second}, {"1", "-0.5"});
  ASSERT_EQ(row.sizes(), at::IntArrayRef({107, 80, 3}));
  EXPECT_TRUE(at::equal(row.slice(0, 7).slice(1, 0, 40), first));
  EXPECT_TRUE(at::equal(row.slice(0, 7).slice(1, 40), second));
  // A "1" in the middle of its band, dot by dot, and as many black dots as "-0.5" has.
  const auto black = row.slice(0, 0, 7).select(2, 0) == 0;
  const auto one = black.slice(1, 18, 21);
  const auto expected = at::tensor({0, 1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1}).view({5, 3}) == 1;
  EXPECT_TRUE(at::equal(one.slice(0, 1, 6), expected));
  EXPECT_EQ(black.slice(1, 0, 40).sum().item<int64_t>(), 8);
  EXPECT_EQ(black.slice(1, 40).sum().item<int64_t>(), 3 + 12 + 1 + 11);
}

TEST(LabelledRow, LabelsOfLongNumbersStayInTheirBand) {
  const auto narrow = at::zeros({400, 8, 3}, at::kByte);
  const auto row = data::labelled_row({narrow}, {"-12.25"});
  EXPECT_EQ(row.size(0), 407) << "dots of one pixel";
  EXPECT_TRUE(at::equal(row.slice(0, 7), narrow));
}
