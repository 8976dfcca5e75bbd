#include "models/model/latent_space.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace burnish::models {

using testing::ElementsAre;

namespace {

/// Clips of 1, 5, 9, … frames, of which four make a latent, with a second stream that is finer.
const LatentSpace kClips{.streams = {{.name = "latents", .channels = 16, .spatial = 8, .temporal = 4, .patch = 2},
                                     {.name = "fine_latents", .channels = 3, .spatial = 4, .temporal = 2, .patch = 1}},
                         .side = 16,
                         .frames_step = 4};

std::string refusal(const LatentSpace& space, const Extent& extent) {
  try {
    space.shape(extent);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST(LatentSpace, APictureHasNoDimensionOfTime) {
  auto space = picture_space(/*channels=*/4, /*spatial=*/8, /*patch=*/2);
  EXPECT_EQ(space.side, 16);
  EXPECT_THAT(space.shape({.height = 32, .width = 64}), ElementsAre(4, 4, 8));
  EXPECT_EQ(space.num_tokens({.height = 32, .width = 64}), 2 * 4);
  EXPECT_EQ(space.num_tokens(std::vector<int64_t>{4, 4, 8}), 2 * 4);
}

TEST(LatentSpace, FramesBecomeLatentsBehindTheFirst) {
  EXPECT_THAT(kClips.shape({.frames = 1, .height = 32, .width = 48}), ElementsAre(16, 1, 4, 6));
  EXPECT_THAT(kClips.shape({.frames = 9, .height = 32, .width = 48}), ElementsAre(16, 3, 4, 6));
  EXPECT_THAT(kClips.shape(kClips.streams[1], {.frames = 9, .height = 32, .width = 48}), ElementsAre(3, 5, 8, 12));
}

TEST(LatentSpace, AStepThatIsNoMultipleOfALatentBeginsWithAShortOne) {
  const LatentSpace space{.streams = {{.name = "latents", .channels = 24, .spatial = 16, .temporal = 4},
                                      {.name = "audio_latents", .channels = 32, .spatial = 0, .temporal = 40, .num_before = 2}},
                          .side = 32,
                          .frames_step = 17,
                          .first_frames = 5,
                          .frame_rate = 24};
  for (const auto& [frames, latents, of_side] :
       {std::tuple{1, 1, 2}, {5, 2, 8}, {22, 7, 37}, {39, 12, 65}, {124, 37, 207}, {345, 102, 575}}) {
    EXPECT_THAT(space.shape({.frames = frames, .height = 32, .width = 64}), ElementsAre(24, latents, 2, 4)) << "a still, or 17 n + 5";
    EXPECT_THAT(space.shape(space.streams[1], {.frames = frames, .height = 32, .width = 64}), ElementsAre(32, 2 * of_side)) << frames;
  }
  EXPECT_EQ(refusal(space, {.frames = 23, .height = 32, .width = 64}),
            "[models] the clips of this model have 5 + a multiple of 17 frames, and not 23; the nearest are 22 and 39");
}

TEST(LatentSpace, LinesAreAsLongAsAClipPlays) {
  LatentSpace space{.streams = {{.name = "latents", .channels = 24, .spatial = 16, .temporal = 4},
                                {.name = "audio_latents", .channels = 32, .spatial = 0, .temporal = 25, .num_before = 1}},
                    .side = 32,
                    .frames_step = 8,
                    .frame_rate = 24};
  const Extent clip{.frames = 49, .height = 32, .width = 64}, still{.height = 32, .width = 64};
  EXPECT_THAT(space.shape(space.streams[1], clip), ElementsAre(32, 51));
  EXPECT_THAT(space.shape(space.streams[1], clip, 12), ElementsAre(32, 102));
  EXPECT_THAT(space.shape(space.streams[1], still, 60), ElementsAre(32, 1)) << "there is one at least";
  EXPECT_THAT(space.shape(clip), ElementsAre(24, 13, 2, 4));
  space.rate_use = Column::RateUse::fixed;
  EXPECT_EQ(space.rate_of(24), 24);
  EXPECT_EQ(space.rate_of(0), 24);
  EXPECT_THROW(space.rate_of(12), Error);
}

TEST(LatentSpace, LatentsOfSomethingElseMayStandInFront) {
  auto space = kClips;
  space.streams[0].num_before = 1;
  EXPECT_THAT(space.shape({.frames = 9, .height = 32, .width = 48}), ElementsAre(16, 4, 4, 6));
  EXPECT_EQ(space.num_tokens({.frames = 9, .height = 32, .width = 48}), 4 * 2 * 3);
}

TEST(LatentSpace, TokensAreThoseOfTheFirstStreamInAllFrames) {
  EXPECT_EQ(kClips.num_tokens({.frames = 9, .height = 32, .width = 48}), 3 * 2 * 3);
  EXPECT_EQ(kClips.num_tokens(std::vector<int64_t>{16, 3, 4, 6}), 3 * 2 * 3);
}

TEST(LatentSpace, RefusesWhatIsNoClipOfTheModel) {
  auto picture = picture_space(/*channels=*/4, /*spatial=*/8, /*patch=*/2);
  EXPECT_EQ(refusal(picture, {.height = 24, .width = 32}),
            "[models] height and width must be multiples of 16 pixels for this model, not 24 and 32");
  EXPECT_EQ(refusal(picture, {.frames = 5, .height = 32, .width = 32}), "[models] this model makes pictures, which are one frame, not 5");
  EXPECT_EQ(refusal(kClips, {.frames = 8, .height = 32, .width = 32}),
            "[models] the clips of this model have 1 + a multiple of 4 frames, and not 8; the nearest are 5 and 9");
  EXPECT_EQ(refusal(kClips, {.frames = 0, .height = 32, .width = 32}),
            "[models] the clips of this model have 1 + a multiple of 4 frames, and not 0; the nearest are 1 and 5");
  EXPECT_EQ(refusal(kClips, {.frames = 81, .height = 16, .width = 16}), "");
}

}  // namespace burnish::models
