// Where clips are cut.
#include "data/clip_survey.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/survey.h"
#include "data/video_file.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::DoubleNear;
using testing::ElementsAre;

namespace {

/// A video of these grays, 16 frames a second.
std::string video(const test::Scratch& scratch, const std::string& name, const std::vector<int64_t>& grays) {
  auto clip = at::empty({3, std::ssize(grays), 48, 64}, at::TensorOptions().dtype(at::kByte));
  for (int64_t k = 0; k < std::ssize(grays); ++k) clip.select(1, k).fill_(grays[static_cast<size_t>(k)]);
  data::write_video(scratch / name, clip, {16, 1});
  return (scratch / name).string();
}

}  // namespace

TEST(ClipSurvey, ACutIsNoMotionAndNoFlash) {
  test::Scratch scratch;
  auto cut = data::survey_clip(video(scratch, "cut.mp4", {40, 44, 48, 52, 160, 164, 168, 60, 64, 68}));
  EXPECT_THAT(cut.cuts, ElementsAre(DoubleNear(4.0 / 16, 1e-3), DoubleNear(7.0 / 16, 1e-3)));
  EXPECT_EQ(cut.look.num_frames, 10);
  EXPECT_THAT(data::survey_clip(video(scratch, "motion.mp4", {20, 50, 80, 110, 140, 170, 200})).cuts, ElementsAre());
  EXPECT_THAT(data::survey_clip(video(scratch, "flash.mp4", {40, 40, 40, 240, 40, 40, 40})).cuts, ElementsAre());
  EXPECT_THAT(data::survey_clip(test::golden_path("clips/base30.mp4")).cuts, ElementsAre());
}

TEST(ClipSurvey, ADatasetsClipsAreLookedAtOnce) {
  test::Scratch scratch;
  video(scratch, "a.mp4", {40, 40, 40, 40, 40, 160, 160, 160, 160, 160});
  scratch.write("a.txt", "a cut");
  data::Subset subset{.base_path = "", .metadata_path = scratch.path(), .size = {.height = 48, .width = 64, .division = 16}};
  subset.caption_files.with_videos = true;
  subset.clips = {.extraction = data::ClipRule::Extraction::chunks, .num_frames = 5, .step = 4};
  auto survey = data::survey(data::Dataset({.subsets = {subset}}), 1);
  EXPECT_EQ(survey.num_files, 1);
  ASSERT_EQ(survey.clips.size(), 1);
  EXPECT_THAT(survey.clips[0].cuts, ElementsAre(DoubleNear(5.0 / 16, 1e-3)));
}
