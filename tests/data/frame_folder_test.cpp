// Folders of numbered frames as clips.
#include "data/frame_folder.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "data/dataset.h"
#include "data/file_hashes.h"
#include "data/image.h"
#include "tests/golden.h"
#include "tests/rows.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

at::Tensor gray(int64_t value, int64_t height = 48, int64_t width = 64) {
  return at::full({height, width, 3}, value, at::TensorOptions().dtype(at::kByte));
}

/// Frames 1 to count, of gray 10 · number, without zeros in front of their numbers.
void write_frames(const std::filesystem::path& folder, int64_t count) {
  std::filesystem::create_directories(folder);
  for (int64_t k = 1; k <= count; ++k) data::write_png(folder / fmt::format("shot_{}.png", k), gray(10 * k));
}

std::vector<int64_t> grays(const at::Tensor& frames_FHW3) {
  std::vector<int64_t> found;
  for (int64_t k = 0; k < frames_FHW3.size(0); ++k) found.push_back(frames_FHW3[k][8][8][1].item<int64_t>());
  return found;
}

data::Subset subset_of(const std::filesystem::path& path, data::ClipRule clips) {
  data::Subset subset{.base_path = path.string(), .metadata_path = path.string(), .size = {.height = 48, .width = 64, .division = 16}};
  subset.caption_files.with_videos = true;
  clips.step = 4;
  subset.clips = clips;
  return subset;
}

}  // namespace

TEST(FrameFolder, FramesAreInTheOrderOfTheirNumbers) {
  test::Scratch scratch;
  write_frames(scratch / "a", 12);
  scratch.write("a/notes.txt", "no frame");
  auto look = data::look_at_clip(scratch / "a");
  EXPECT_EQ(look.num_frames, 12);
  EXPECT_EQ(look.size, (data::Size{48, 64}));
  EXPECT_EQ(look.duration.num, 0);
  EXPECT_THAT(grays(data::decode_frames(scratch / "a", {{0, 1}, {1, 1}, {9, 1}, {11, 1}})), ElementsAre(10, 20, 100, 120));
}

TEST(FrameFolder, ItsFramesAreTakenOneByOneAtAnyRate) {
  test::Scratch scratch;
  write_frames(scratch / "clips/jump", 12);
  scratch.write("clips/jump.txt", "a jump");
  for (const data::Fraction rate : {data::Fraction{16, 1}, {24, 1}}) {
    data::Dataset dataset(
        {.subsets = {subset_of(scratch / "clips", {.extraction = data::ClipRule::Extraction::middle, .num_frames = 5, .rate = rate})}});
    ASSERT_EQ(dataset.rows().size(), 1);
    EXPECT_EQ(dataset.row(0).prompt, "a jump");
    EXPECT_THAT(grays(test::read_target(dataset, 0)), ElementsAre(40, 50, 60, 70, 80));
  }
}

TEST(FrameFolder, AFolderWithoutACaptionBesideItHoldsPictures) {
  test::Scratch scratch;
  write_frames(scratch / "clips/2_cat", 3);
  write_frames(scratch / "clips/2_cat/jump.v2", 5);
  scratch.write("clips/2_cat/jump.v2.txt", "a jump");
  data::Dataset dataset({.subsets = {subset_of(scratch / "clips", {.num_frames = 5})}});
  std::vector<int64_t> frames;
  for (auto row : dataset.rows()) frames.push_back(dataset.extent(row).frames);
  EXPECT_THAT(frames, ElementsAre(5, 5, 1, 1, 1, 1, 1, 1)) << "all of them twice";
}

TEST(FrameFolder, AColumnNamesIt) {
  test::Scratch scratch;
  write_frames(scratch / "jump", 5);
  auto metadata = scratch.write("data.jsonl", R"({"video": "jump", "prompt": "a jump"})");
  auto subset = subset_of(scratch.path(), {.num_frames = 5});
  subset.metadata_path = metadata.string();
  data::Dataset dataset({.subsets = {subset}});
  EXPECT_THAT(grays(test::read_target(dataset, 0)), ElementsAre(10, 20, 30, 40, 50));
}

TEST(FrameFolder, ItsContentIsThatOfItsFrames) {
  test::Scratch scratch;
  write_frames(scratch / "a", 3);
  write_frames(scratch / "b", 3);
  data::FileHashes hashes("");
  auto before = hashes.hash(scratch / "a");
  EXPECT_EQ(before, hashes.hash(scratch / "b"));
  data::write_png(scratch / "a/shot_2.png", gray(21));
  EXPECT_NE(before, data::FileHashes("").hash(scratch / "a"));
}

TEST(FrameFolder, FramesOfOtherSizesAreRefused) {
  test::Scratch scratch;
  write_frames(scratch / "a", 3);
  data::write_png(scratch / "a/shot_2.png", gray(20, 48, 48));
  EXPECT_THAT(test::error_of([&] { data::look_at_clip(scratch / "a"); }),
              AllOf(HasSubstr("shot_2.png is 48 by 48"), HasSubstr("64 by 48")));
  std::filesystem::create_directories(scratch / "none");
  EXPECT_THAT(test::error_of([&] { data::look_at_clip(scratch / "none"); }), HasSubstr("holds no picture"));
}
