// Which frames of a clip are trained, and datasets of clips.
#include "data/clip_window.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "data/animated_webp.h"
#include "data/dataset.h"
#include "data/image.h"
#include "data/mask_check.h"
#include "tests/golden.h"
#include "tests/rows.h"
#include "tests/scratch.h"

using namespace burnish;
using data::ClipRule;
using Extraction = ClipRule::Extraction;
using test::error_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

/// A clip of 40 frames, 30 a second: 22 at 16.
const data::ClipLook kClip{.size = {48, 64}, .num_frames = 40, .duration = {4, 3}};

/// "first+count" of every window that a model of 1 + 4 k frames takes of the clip.
std::vector<std::string> windows(ClipRule rule, const data::ClipLook& clip = kClip) {
  rule.step = 4;
  std::vector<std::string> found;
  for (const auto& window : data::windows_of(rule, clip, "a.mp4")) found.push_back(fmt::format("{}+{}", window.first, window.count));
  return found;
}

}  // namespace

TEST(ClipWindow, Extractions) {
  EXPECT_THAT(windows({.num_frames = 9}), ElementsAre("0+9"));
  EXPECT_THAT(windows({.num_frames = 0}), ElementsAre("0+21")) << "as many as the clip has, on the model's grid";
  EXPECT_THAT(windows({.extraction = Extraction::middle, .num_frames = 9}), ElementsAre("6+9"));
  EXPECT_THAT(windows({.extraction = Extraction::whole}), ElementsAre("0+21"));
  EXPECT_THAT(windows({.extraction = Extraction::whole, .num_frames = 17}), ElementsAre("0+17"));
  EXPECT_THAT(windows({.extraction = Extraction::chunks, .num_frames = 9}), ElementsAre("0+9", "9+9"));
  EXPECT_THAT(windows({.extraction = Extraction::slide, .num_frames = 9, .stride = 6}), ElementsAre("0+9", "6+9", "12+9"));
  EXPECT_THAT(windows({.extraction = Extraction::uniform, .num_frames = 9, .num_windows = 3}), ElementsAre("0+9", "6+9", "13+9"));
  EXPECT_THAT(windows({.extraction = Extraction::uniform, .num_frames = 21, .num_windows = 3}), ElementsAre("0+21", "1+21"));
}

TEST(ClipWindow, NoFrameIsTakenTwice) {
  EXPECT_THAT(windows({.num_frames = 41, .rate = {30, 1}}), ElementsAre("0+37"));
  const data::ClipLook ntsc{.size = {48, 64}, .num_frames = 24, .duration = {1001, 1000}};
  auto window = data::windows_of({.num_frames = 21, .rate = {24, 1}, .step = 4}, ntsc, "a.mp4").at(0);
  EXPECT_EQ(window.rate.num * 1001, window.rate.den * 24000) << "frame by frame";
  const data::ClipLook slow{.size = {48, 64}, .num_frames = 20, .duration = {2, 1}};
  EXPECT_THAT(error_of([&] { windows({.num_frames = 9}, slow); }), AllOf(HasSubstr("a.mp4 has 10 frames"), HasSubstr("--frame_rate")));
  EXPECT_THAT(windows({.num_frames = 9, .rate = {10, 1}}, slow), ElementsAre("0+9"));
  const ClipRule of_model{.may_be_slower = true, .num_frames = 9, .step = 4};
  auto one_by_one = data::windows_of(of_model, slow, "a.mp4").at(0);
  EXPECT_EQ(one_by_one.rate.num, 10 * one_by_one.rate.den) << "frame by frame, where no rate is asked for";
  EXPECT_TRUE(data::is_slower(of_model, slow));
  EXPECT_FALSE(data::is_slower(of_model, kClip));
  EXPECT_FALSE(data::is_slower(of_model, {.size = {48, 64}, .num_frames = 9, .duration = {}})) << "frames without times";
}

/// As programs write an animation: frames that are equal are one, which is shown for longer.
TEST(ClipWindow, AFrameThatIsHeldIsTakenForAsLong) {
  data::ClipLook held{.size = {48, 64}, .num_frames = 15, .duration = {17, 16}, .usual_frame = {62, 1000}};
  EXPECT_THAT(windows({.num_frames = 17}, held), ElementsAre("0+17"));
  held.usual_frame = {125, 1000};
  EXPECT_THAT(error_of([&] { windows({.num_frames = 17}, held); }), HasSubstr("shown twice"));
}

TEST(ClipWindow, OffTheGridIsRefusedWithTheTwoNearest) {
  EXPECT_THAT(error_of([] { data::check_rule(ClipRule{.num_frames = 50, .step = 4}); }, Exit::config), HasSubstr("have 49 or 53 frames"));
  EXPECT_NO_THROW(data::check_rule(ClipRule{.num_frames = 81, .step = 4}));
}

TEST(ClipWindow, AFolderOfClipsAndPictures) {
  test::Scratch scratch;
  for (const auto& [name, from] : {std::pair("a.mp4", "clips/base30.mp4"), {"b.png", "data/rgba.png"}, {"c.gif", "clips/base.gif"}}) {
    scratch.write(name, test::content(test::golden_path(from)));
    scratch.write(std::string(name, 1) + ".txt", "a caption");
  }
  data::Subset subset{.base_path = "", .metadata_path = scratch.path(), .size = {.height = 16, .width = 32, .division = 16}};
  subset.caption_files.with_videos = true;
  subset.clips = {.extraction = Extraction::chunks, .num_frames = 9, .rate = {10, 1}, .step = 4};
  data::Dataset dataset({.subsets = {subset}});
  ASSERT_EQ(dataset.rows().size(), 4) << "9 of 13 frames, a picture, and 9 of 20 frames twice";
  EXPECT_EQ(dataset.extent(0), (Extent{9, 16, 32}));
  EXPECT_EQ(dataset.extent(1), (Extent{1, 16, 32}));
  EXPECT_EQ(test::read_target(dataset, 1).sizes().vec(), (std::vector<int64_t>{16, 32, 3}));
  auto frames = test::read_target(dataset, 0);
  ASSERT_EQ(frames.sizes().vec(), (std::vector<int64_t>{9, 16, 32, 3}));
  for (int64_t k = 0; k < 9; ++k)
    EXPECT_NEAR(frames[k][8][8][0].item<double>(), static_cast<double>(3 * k) * 5 * 255 / 219, 1.01) << "every third of 30 a second";
  EXPECT_EQ(dataset.row(3).window->first, 9);
}

namespace {

const Column kSound{.name = "input_audio", .is = Column::Is::sound, .channels = 1, .rate = 16000};

at::Tensor load_sound(const data::Dataset& dataset, int64_t row, int64_t rate) {
  auto column = kSound;
  column.rate = rate;
  return std::get<at::Tensor>(data::read(dataset, row, column));
}

/// A dataset of a clip at 10 frames a second, 5 of which are taken from its second window on, with these further columns.
data::Dataset with_columns(const test::Scratch& scratch, const std::string& clip, const std::string& columns,
                           const Column& mask = mask_column("mask")) {
  auto metadata = scratch.write("data.jsonl", fmt::format(R"({{"video": "{}", "prompt": "a"{}}})", clip, columns));
  data::Subset subset{.base_path = test::golden_path("clips"), .metadata_path = metadata.string(), .size = {48, 64, 4096, 16}};
  subset.clips = {.extraction = Extraction::chunks, .num_frames = 5, .rate = {10, 1}, .step = 4};
  return data::Dataset({.subsets = {subset}, .columns = {kSound, mask}});
}

}  // namespace

namespace {

/// Writes a folder of so many frames, each gray of ten times its number.
void write_frames(const std::filesystem::path& folder, int64_t count) {
  std::filesystem::create_directory(folder);
  for (int64_t n = 0; n < count; ++n) data::write_png(folder / fmt::format("{:04}.png", n), at::full({48, 64, 3}, 10 * n, at::kByte));
}

/// A clip and one beside it, in the column "guide", of each 5 frames are taken: the first row of that.
data::Dataset with_guide(const test::Scratch& scratch, const std::string& clip, const std::string& guide) {
  auto metadata = scratch.write("data.jsonl", fmt::format(R"({{"video": "{}", "prompt": "a", "guide": {}}})", clip, guide));
  data::Subset subset{.base_path = scratch.path(), .metadata_path = metadata.string(), .size = {48, 64, 4096, 16}};
  subset.clips = {.extraction = Extraction::chunks, .num_frames = 5, .rate = {10, 1}, .step = 4};
  auto column = test::beside("guide");
  column.given = Column::Given::or_white;
  return data::Dataset({.subsets = {subset}, .columns = {column}});
}

}  // namespace

TEST(ClipBeside, FramesWithoutTimesStandBesideAClipOfTheirNumbers) {
  test::Scratch scratch;
  const auto video = scratch.write("a.mp4", test::content(test::golden_path("clips/base30.mp4")));  // 40 frames, 13 of them at 10 a second
  write_frames(scratch / "frames", 13);
  auto guided = with_guide(scratch, "a.mp4", R"("frames")");
  ASSERT_EQ(guided.rows().size(), 2);
  auto guide = test::read_beside(guided, 1, "guide");
  auto target = test::read_target(guided, 1);
  auto other_way = with_guide(scratch, "frames", R"("a.mp4")");
  ASSERT_EQ(other_way.rows().size(), 2);
  for (int64_t k = 0; k < 5; ++k) {
    EXPECT_EQ(guide[k][8][8][0].item<int>(), 10 * (5 + k));
    EXPECT_TRUE(at::equal(test::read_beside(other_way, 1, "guide")[k], target[k])) << k;
  }
  write_frames(scratch / "few", 9);
  EXPECT_THAT(error_of([&] { with_guide(scratch, "a.mp4", R"("few")"); }), HasSubstr("is shorter than the clip"));
}

TEST(ClipBeside, AColumnThatIsWhiteWhereItIsEmptyNeedsNoFile) {
  test::Scratch scratch;
  scratch.write("a.mp4", test::content(test::golden_path("clips/base30.mp4")));
  auto dataset = with_guide(scratch, "a.mp4", R"("")");
  auto white = test::read_beside(dataset, 0, "guide");
  EXPECT_EQ(white.sizes().vec(), (std::vector<int64_t>{5, 48, 64, 3}));
  EXPECT_EQ(white.min().item<int>(), 255);
  EXPECT_THAT(data::content(dataset, 0, *find_column(dataset.options().columns, "guide"), 0, {{"", "h"}}), HasSubstr("white cut to"));
}

TEST(ClipBeside, AFileThatClaimsTooMuchMemoryIsLeftOutWhereBadSamplesAre) {
  test::Scratch scratch;
  auto bytes = test::content(test::golden_path("clips/base30.mp4"));
  scratch.write("good.mp4", bytes);
  scratch.write("bad.mp4", bytes.replace(bytes.find("stco") + 8, 4, "\x7f\xff\xff\xff"));
  auto metadata = scratch.write("data.csv", "video,prompt\nbad.mp4,a\ngood.mp4,b\n");
  data::Subset subset{.base_path = scratch.path(), .metadata_path = metadata.string(), .size = {48, 64, 4096, 16}};
  subset.clips = {.num_frames = 5, .rate = {10, 1}, .step = 4};
  data::Dataset dataset({.subsets = {subset}, .skip_bad_samples = true});
  EXPECT_EQ(dataset.rows().size(), 1);
  EXPECT_THAT(dataset.bad_samples().at(0), HasSubstr("bad.mp4"));
}

TEST(ClipMask, AClipIsTheMaskOfEachFrame) {
  test::Scratch scratch;
  auto dataset = with_columns(scratch, "base30.mp4", R"(, "mask": "base.gif")");
  auto mask = test::read_mask(dataset, 1);
  ASSERT_EQ(mask.sizes().vec(), (std::vector<int64_t>{5, 48, 64, 1}));
  for (int64_t k = 0; k < 5; ++k)
    EXPECT_NEAR(mask[k][8][8][0].item<double>(), static_cast<double>(1 + 3 * (5 + k)) * 5 * 255 / 219, 1.01) << k;
}

TEST(ClipMask, APictureIsTheMaskOfAllFrames) {
  test::Scratch scratch;
  data::write_png(scratch / "mask.png", at::full({48, 64, 3}, 255, at::kByte));
  auto dataset = with_columns(scratch, "base30.mp4", fmt::format(R"(, "mask": "{}")", (scratch / "mask.png").string()));
  EXPECT_EQ(test::read_mask(dataset, 1).sizes().vec(), (std::vector<int64_t>{48, 64, 1}));
}

TEST(ClipMask, TheClipsOwnTransparencyIsTheMaskOfEachFrame) {
  test::Scratch scratch;
  for (const char* clip : {"alpha.webm", "alpha_prores.mov", "alpha.webp"}) {
    auto mask = test::read_mask(with_columns(scratch, clip, "", opacity_column()), 0);
    ASSERT_EQ(mask.sizes().vec(), (std::vector<int64_t>{5, 48, 64, 1})) << clip;
    for (int64_t k = 0; k < 5; ++k) {
      EXPECT_EQ(mask[k][8][8][0].item<int>(), 255) << clip;
      EXPECT_NEAR(mask[k][8][54][0].item<double>(), static_cast<double>(40 + 40 * k), 6) << clip;
    }
  }
  auto opaque = with_columns(scratch, "base30.mp4", "", opacity_column());
  EXPECT_EQ(test::read_mask(opaque, 1).min().item<int>(), 255);
  EXPECT_THAT(data::warnings_of_masks(opaque, opacity_column()), testing::ElementsAre(HasSubstr("no picture is transparent anywhere")));
  auto clear = with_columns(scratch, "alpha.webm", "", opacity_column());
  EXPECT_THAT(data::warnings_of_masks(clear, opacity_column()), testing::IsEmpty());
}

TEST(ClipMask, BlackClipsAreCounted) {
  test::Scratch scratch;
  auto black = at::zeros({3, 41, 48, 64}, at::kByte);
  data::write_webp(scratch / "black.webp", black, 30);
  auto dataset = with_columns(scratch, "base30.mp4", fmt::format(R"(, "mask": "{}")", (scratch / "black.webp").string()));
  EXPECT_THAT(data::warnings_of_masks(dataset, mask_column("mask")), testing::ElementsAre(HasSubstr("2 samples have a black mask")));
  black.select(1, 40).fill_(255);  // one frame that counts
  data::write_webp(scratch / "some.webp", black, 30);
  auto other = with_columns(scratch, "base30.mp4", fmt::format(R"(, "mask": "{}")", (scratch / "some.webp").string()));
  EXPECT_THAT(data::warnings_of_masks(other, mask_column("mask")), testing::IsEmpty());
}

TEST(ClipMask, WhatCannotBeOneIsRefused) {
  test::Scratch scratch;
  EXPECT_THAT(error_of([&] { with_columns(scratch, "base30.mp4", R"(, "mask": "cut.mp4")"); }),
              AllOf(HasSubstr("cut.mp4 is shorter than the clip"), HasSubstr("base30.mp4")));
}

TEST(ClipSound, LiesBesideTheFramesOfTheRow) {
  test::Scratch scratch;
  auto dataset = with_columns(scratch, "sound.mp4", "");
  ASSERT_EQ(dataset.rows().size(), 2) << "of 10 frames at this rate";
  EXPECT_EQ(load_sound(dataset, 0, 16000).sizes().vec(), (std::vector<int64_t>{8000}));
  EXPECT_LE(load_sound(dataset, 1, 16000).abs().argmax().item<int64_t>(), 16) << "the click at 0.5 s";
  auto beside = with_columns(scratch, "sound.mp4", R"(, "input_audio": "sound.wav")");
  EXPECT_THAT(beside.row(1).cells.at("input_audio").get<std::string>(), HasSubstr("sound.wav"));
  EXPECT_LE(load_sound(beside, 1, 16000).abs().argmax().item<int64_t>(), 24);
  auto silent = load_sound(with_columns(scratch, "base.gif", ""), 0, 16000);
  EXPECT_EQ(silent.sizes().vec(), (std::vector<int64_t>{8000}));
  EXPECT_EQ(silent.abs().max().item<double>(), 0);
}

TEST(ClipWindow, AFurtherClipHasTheFramesOfItsRows) {
  test::Scratch scratch;
  data::write_png(scratch / "still.png", at::full({48, 64, 3}, 255, at::kByte));
  scratch.write("a.gif", test::content(test::golden_path("clips/base.gif")));
  auto open = [&](const std::string& control) {
    auto rows = scratch.write("rows.csv", "video,control,prompt\na.gif," + control + ",x\n");
    data::Subset subset{.base_path = scratch.path(), .metadata_path = rows, .size = {.height = 16, .width = 32, .division = 16}};
    subset.clips = {.extraction = Extraction::chunks, .num_frames = 9, .rate = {10, 1}, .step = 4};
    return data::Dataset({.subsets = {subset}, .columns = {test::beside("control")}});
  };
  auto dataset = open("a.gif");
  ASSERT_EQ(dataset.rows().size(), 2);
  for (int64_t row : {0, 1}) EXPECT_TRUE(at::equal(test::read_beside(dataset, row, "control"), test::read_target(dataset, row))) << row;
  EXPECT_FALSE(at::equal(test::read_beside(dataset, 0, "control"), test::read_beside(dataset, 1, "control"))) << "of another window";

  EXPECT_THAT(error_of([&] { open("still.png"); }), HasSubstr("control names the picture"));
}
