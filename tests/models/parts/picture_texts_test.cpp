// Sides of reference pictures that are made smaller than they are given.
#include "models/parts/picture_texts.h"

#include <gtest/gtest.h>

using namespace burnish;
using namespace burnish::models;

/// As BooguImageProcessor.get_new_height_width of Boogu-Image with twice the side of the area's square as the longest.
TEST(ShrunkPictures, AreNoLargerThanAnAreaAndNoLongerThanTwiceItsSide) {
  using Sides = std::pair<int64_t, int64_t>;
  auto shrunk = [](int64_t height, int64_t width, int64_t area) {
    const auto size = shrunk_to({.height = height, .width = width}, area);
    return Sides(size.height, size.width);
  };
  EXPECT_EQ(shrunk(64, 48, 384 * 384), Sides(64, 48));
  EXPECT_EQ(shrunk(70, 100, 384 * 384), Sides(64, 96));
  EXPECT_EQ(shrunk(1024, 1024, 384 * 384), Sides(384, 384));
  EXPECT_EQ(shrunk(3000, 2000, 2048 * 2048), Sides(2496, 1664));
  EXPECT_EQ(shrunk(400, 4000, 384 * 384), Sides(64, 768));  // by its side
  EXPECT_EQ(shrunk(10, 300, 384 * 384), Sides(16, 288));
}
