// Clips of every kind that a reader gets wrong easily (tests/golden/make_clips.py): frame n of most is gray of luma 16 + 5n.
#include "data/clip.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>

#include "base/error.h"
#include "base/interrupt.h"
#include "data/image.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using data::Fraction;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

std::string clip(const std::string& name) { return test::golden_path("clips/" + name); }

/// Times of frames 0 to count - 1 at that rate.
std::vector<Fraction> at_rate(Fraction rate, int64_t count) {
  std::vector<Fraction> times;
  for (int64_t k = 0; k < count; ++k) times.push_back({k * rate.den, rate.num});
  return times;
}

/// The numbers that the frames at these times tell by their gray.
std::vector<int64_t> numbers_at(const std::string& name, const std::vector<Fraction>& times) {
  auto frames = data::decode_frames(clip(name), times);
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < frames.size(0); ++k) {
    auto gray = frames[k][10][10][1].item<double>();
    numbers.push_back(std::llround(gray * 219 / 255 / 5));
    EXPECT_NEAR(gray, static_cast<double>(numbers.back()) * 5 * 255 / 219, 1.01) << name << ", frame " << k;
  }
  return numbers;
}

/// Red, green and blue in the middle of the first frame.
std::vector<int64_t> color_of(const std::string& name) {
  auto frame = data::decode_frames(clip(name), {{0, 1}})[0];
  auto pixel = frame[frame.size(0) / 2][frame.size(1) / 2];
  return {pixel[0].item<int64_t>(), pixel[1].item<int64_t>(), pixel[2].item<int64_t>()};
}

/// The red of the four corners, row by row.
std::vector<int64_t> corners_of(const std::string& name) {
  auto frame = data::decode_frames(clip(name), {{0, 1}})[0];
  std::vector<int64_t> corners;
  for (int64_t y : {2, -3}) {
    for (int64_t x : {2, -3}) corners.push_back(frame[y][x][0].item<int64_t>());
  }
  return corners;
}

/// Frames, sides and seconds.
std::vector<double> look(const std::string& name) {
  auto found = data::look_at_clip(clip(name));
  return {static_cast<double>(found.num_frames), static_cast<double>(found.size.height), static_cast<double>(found.size.width),
          static_cast<double>(found.duration.num) / static_cast<double>(found.duration.den)};
}

std::string refusal(const std::string& name) {
  try {
    data::look_at_clip(clip(name));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::data);
    return error.what();
  }
  return "";
}

std::vector<int64_t> counted(int64_t count, int64_t first = 0) {
  std::vector<int64_t> numbers;
  for (int64_t k = 0; k < count; ++k) numbers.push_back(first + k);
  return numbers;
}

}  // namespace

TEST(Clip, EveryFrameIsItself) {
  for (const char* name : {"base30.mp4", "opengop.mp4", "frag.mp4", "base.mkv"})
    EXPECT_EQ(numbers_at(name, at_rate({30, 1}, 40)), counted(40)) << name;
  EXPECT_EQ(numbers_at("base.ts", at_rate({30, 1}, 20)), counted(20)) << "its clock begins at 1.4 s";
  EXPECT_EQ(numbers_at("cut.mp4", at_rate({30, 1}, 20)), counted(20, 15)) << "an edit list leaves out the frames before";
  EXPECT_EQ(numbers_at("ntsc.mp4", at_rate({30000, 1001}, 40)), counted(40));
  EXPECT_EQ(numbers_at("tenbit.mp4", at_rate({10, 1}, 5)), (std::vector<int64_t>{0, 4, 8, 12, 16}));
}

TEST(Clip, FramesAreTakenByTheirTimes) {
  EXPECT_THAT(numbers_at("base30.mp4", at_rate({16, 1}, 9)), ElementsAre(0, 1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(numbers_at("ntsc.mp4", at_rate({24, 1}, 5)), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(numbers_at("vfr.mp4", at_rate({30, 1}, 8)), ElementsAre(0, 0, 2, 3, 3, 5, 6, 6)) << "a frame stays until the next one";
  for (const char* name : {"base.gif", "anim.webp"})
    EXPECT_THAT(numbers_at(name, at_rate({10, 1}, 5)), ElementsAre(1, 4, 7, 10, 13)) << name;
}

TEST(Clip, LateFramesAreFoundWithoutThoseBefore) {
  for (const char* name : {"long.mp4", "long.mkv"}) {
    for (int64_t first : {0, 53, 89, 90, 91, 119, 150, 197}) {
      std::vector<Fraction> times;
      std::vector<int64_t> expected;
      for (int64_t k = first; k < first + 3; ++k) {
        times.push_back({k, 10});
        expected.push_back(k % 40);
      }
      EXPECT_EQ(numbers_at(name, times), expected) << name << " from " << first << " on";
    }
    auto frames = data::open_clip(clip(name));
    ASSERT_TRUE(frames->skip_to({17, 1}));
    ASSERT_TRUE(frames->next());
    auto end = static_cast<double>(frames->end()) * static_cast<double>(frames->tick().num) / static_cast<double>(frames->tick().den);
    EXPECT_GT(end, 12) << name << " was decoded from its start";
    EXPECT_LE(end, 17.2) << name;
  }
}

TEST(Clip, LengthIsWhatIsShown) {
  EXPECT_THAT(look("base30.mp4"), ElementsAre(40, 48, 64, ::testing::DoubleNear(4.0 / 3, 1e-3)));
  EXPECT_THAT(look("cut.mp4"), ElementsAre(25, 48, 64, ::testing::DoubleNear(25.0 / 30, 1e-3)));
  EXPECT_THAT(look("base.ts"), ElementsAre(20, 48, 64, ::testing::DoubleNear(2.0 / 3, 1e-3)));
  EXPECT_THAT(look("vfr.mp4"), ElementsAre(24, 48, 64, ::testing::DoubleNear(1.2, 0.05)));
  EXPECT_THAT(look("base.gif"), ElementsAre(20, 48, 64, ::testing::DoubleNear(2, 1e-3)));
  EXPECT_THAT(look("anim.webp"), ElementsAre(20, 48, 64, ::testing::DoubleNear(2, 1e-3)));
}

TEST(Clip, ColorsGoByMatrixAndRange) {
  for (const char* name : {"red_bt709_tv.mp4", "red_bt709_pc.mp4", "red_smpte170m_tv.mp4", "red_smpte170m_pc.mp4"}) {
    auto color = color_of(name);
    EXPECT_NEAR(static_cast<double>(color[0]), 253, 1.01) << name;
    EXPECT_LE(std::max(color[1], color[2]), 1) << name;
  }
}

TEST(Clip, ColorsAreThoseOfSwscaleToTheByte) {
  for (const char* name : {"colors_bt709_tv", "colors_smpte170m_tv", "colors_bt709_pc"}) {
    auto frame = data::decode_frames(clip(std::string(name) + ".mp4"), {{0, 1}})[0];
    EXPECT_TRUE(at::equal(frame, data::decode_image(clip(std::string(name) + ".png")))) << name;
  }
}

TEST(Clip, TransparencyIsLaidOverWhiteAndReadBesideThePixels) {
  const auto times = at_rate({10, 1}, 5);
  for (const char* name :
       {"alpha.webm", "alpha_vp8.webm", "alpha_prores.mov", "alpha_qtrle.mov", "alpha_png.mov", "alpha.webp", "alpha.gif"}) {
    const std::string file = name;
    const auto pixels = data::decode_frames(clip(file), times).to(at::kInt), alphas = data::decode_frame_alphas(clip(file), times);
    ASSERT_EQ(alphas.sizes(), (std::vector<int64_t>{5, 48, 64, 1})) << file;
    for (int64_t n = 0; n < 5; ++n) {
      EXPECT_EQ(alphas[n][20][10][0].item<int>(), 255) << file << ", frame " << n;
      EXPECT_NEAR(pixels[n][20][10][0].item<double>(), 200, 8) << file << ", frame " << n;
      const double opacity = file == "alpha.gif" ? 0 : static_cast<double>(40 + 40 * n);
      EXPECT_NEAR(alphas[n][20][54][0].item<double>(), opacity, 6) << file << ", frame " << n;
      EXPECT_NEAR(pixels[n][20][54][1].item<double>(), (60 * opacity + 255 * (255 - opacity)) / 255, 10) << file << ", frame " << n;
    }
  }
  EXPECT_EQ(data::decode_frame_alphas(clip("base30.mp4"), times).min().item<int>(), 255) << "of a clip that has none";
}

TEST(Clip, FramesAreUprightAndOfSquarePixels) {
  EXPECT_THAT(corners_of("quad.mp4"), ElementsAre(28, 86, 144, 203));
  EXPECT_THAT(corners_of("rot90.mp4"), ElementsAre(86, 203, 28, 144));
  EXPECT_THAT(corners_of("rot180.mp4"), ElementsAre(203, 144, 86, 28));
  EXPECT_THAT(corners_of("rot270.mp4"), ElementsAre(144, 28, 203, 86));
  EXPECT_THAT(look("rot90.mp4"), ElementsAre(5, 64, 32, 0.5));
  EXPECT_THAT(look("sar.mp4"), ElementsAre(3, 48, 64, ::testing::DoubleNear(0.3, 1e-3)));
  EXPECT_THAT(look("odd.webm"), ElementsAre(5, 63, 97, ::testing::DoubleNear(0.5, 1e-3)));
  EXPECT_EQ(data::decode_frames(clip("odd.webm"), {{0, 1}}).sizes().vec(), (std::vector<int64_t>{1, 63, 97, 3}));
}

TEST(Clip, InterlacedFramesAreToldFromOthers) {
  auto is_interlaced = [](const char* name) {
    auto frames = data::open_clip(clip(name));
    while (frames->next()) continue;
    return frames->is_interlaced();
  };
  EXPECT_TRUE(is_interlaced("inter.mp4"));
  EXPECT_FALSE(is_interlaced("base30.mp4"));
}

TEST(Clip, WhatCannotBeReadIsSaid) {
  EXPECT_THAT(refusal("hdr10.mp4"), AllOf(HasSubstr("hdr10.mp4"), HasSubstr("HDR"), HasSubstr("ffmpeg -i")));
  EXPECT_THAT(refusal("truncated.mp4"), AllOf(HasSubstr("truncated"), HasSubstr("frames"), HasSubstr("could be decoded")));
  EXPECT_THROW(data::decode_frames(clip("cut.mp4"), {{2, 1}}), Error);
}

TEST(Clip, ATableThatClaimsMoreThanMemoryHoldsIsTheFilesFault) {
  test::Scratch scratch;
  auto bytes = test::content(clip("base30.mp4"));
  const auto count = bytes.find("stco") + 8;
  bytes.replace(count, 4, "\x7f\xff\xff\xff");
  const auto file = scratch.write("claims.mp4", bytes);
  EXPECT_THAT(test::error_of([&] { data::look_at_clip(file); }), AllOf(HasSubstr("claims.mp4"), HasSubstr("emory")));
}

TEST(Clip, AnAnimationOfManyPixelsInFewBytesIsRefused) {
  test::Scratch scratch;
  using namespace std::string_literals;
  std::string bytes = "GIF89a\x00\x10\x00\x10\x80\x00\x00\x00\x00\x00\xff\xff\xff"s;  // 4096 by 4096 in two colours
  for (int frame = 0; frame < 300; ++frame) bytes += ",\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02\x44\x01\x00"s;  // a frame of one pixel
  const auto file = scratch.write("many.gif", bytes + ";");
  EXPECT_THAT(test::error_of([&] { data::look_at_clip(file); }), AllOf(HasSubstr("many.gif"), HasSubstr("4.29 billion pixels")));
  EXPECT_THAT(test::error_of([&] { data::decode_frames(file, {{29, 1}}); }), HasSubstr("4.29 billion pixels"));
}

TEST(Clip, ASignalIsHeardBetweenFrames) {
  auto looks = [] {
    watch_for_interrupt("");
    std::raise(SIGTERM);
    try {
      data::look_at_clip(clip("base30.mp4"));
    } catch (const Error& error) {
      std::_Exit(static_cast<int>(error.code()));
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(looks(), ::testing::ExitedWithCode(static_cast<int>(Exit::interrupted)), "");
}

TEST(Clip, APictureIsAClipOfOneFrame) {
  auto picture = test::golden_path("data/rgba.png");
  EXPECT_EQ(data::look_at_clip(picture).num_frames, 1);
  EXPECT_EQ(data::decode_frames(picture, {{0, 1}}).size(0), 1);
}
