#include "base/extent.h"

#include <gtest/gtest.h>

using burnish::Extent;

TEST(Extent, FramesStandInATextWhereThereAreSeveral) {
  const Extent picture{.height = 512, .width = 768}, clip{.frames = 49, .height = 512, .width = 768};
  EXPECT_EQ(spelled(picture), "512x768");
  EXPECT_EQ(spelled(clip), "49x512x768");
  EXPECT_EQ(text_of(picture), "768x512");
  EXPECT_EQ(text_of(clip), "768x512x49");
}

TEST(Extent, ClipsStandBehindPictures) {
  const Extent picture{.height = 768, .width = 768}, clip{.frames = 5, .height = 64, .width = 64};
  EXPECT_LT(picture, clip);
  EXPECT_EQ(clip.num_pixels(), 5 * 64 * 64);
}
