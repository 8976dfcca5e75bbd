// Clips as MP4 and WebM, read back by the reader of videos.
#include "data/video_file.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "data/animated_webp.h"
#include "data/clip.h"
#include "data/sound.h"
#include "io/files.h"
#include "tests/relative_error.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::HasSubstr;

namespace {

/// Frame k is in four flat parts: red, green, blue, and a gray of 20 + 20 k.
at::Tensor clip(int64_t num_frames, int64_t height = 48, int64_t width = 64) {
  auto frames = at::empty({3, num_frames, height, width}, at::TensorOptions().dtype(at::kByte)).fill_(20);
  for (int64_t k = 0; k < num_frames; ++k) {
    auto frame = frames.select(1, k);
    frame[0].narrow(0, 0, height / 2).narrow(1, 0, width / 2).fill_(200);
    frame[1].narrow(0, 0, height / 2).narrow(1, width / 2, width - width / 2).fill_(200);
    frame[2].narrow(0, height / 2, height - height / 2).narrow(1, 0, width / 2).fill_(200);
    frame.narrow(1, height / 2, height - height / 2).narrow(2, width / 2, width - width / 2).fill_(20 + 20 * k);
  }
  return frames;
}

/// What is written comes back: every frame at its time, and no colour far from what it was.
void expect_same(const std::filesystem::path& path, const at::Tensor& written, const data::Fraction& rate) {
  auto look = data::look_at_clip(path);
  const auto num_frames = written.size(1);
  ASSERT_EQ(look.num_frames, num_frames) << path;
  EXPECT_NEAR(static_cast<double>(look.duration.num) / static_cast<double>(look.duration.den),
              static_cast<double>(num_frames * rate.den) / static_cast<double>(rate.num), 2e-3)
      << path;
  std::vector<data::Fraction> times;
  for (int64_t k = 0; k < num_frames; ++k) times.push_back({k * rate.den, rate.num});
  auto read = data::decode_frames(path, times);
  for (int64_t k = 0; k < num_frames; ++k) {
    auto expected = data::frame_of_clip(written, k);
    for (auto [y, x] : {std::pair(8, 8), {8, -8}, {-8, 8}, {-8, -8}}) {
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(read[k][y][x][c].item<int>(), expected[y][x][c].item<int>(), 4)
            << path << ", frame " << k << ", row " << y << ", column " << x << ", channel " << c;
      }
    }
  }
}

}  // namespace

TEST(VideoFile, ComesBackAsItWas) {
  test::Scratch folder;
  for (const char* name : {"clip.mp4", "clip.webm"}) {
    for (const data::Fraction rate : {data::Fraction{16, 1}, {2997, 125}}) {
      data::write_video(folder / name, clip(9), rate);
      expect_same(folder / name, clip(9), rate);
    }
  }
}

TEST(VideoFile, ItsSoundComesBackSideBySideAndInTime) {
  test::Scratch folder;
  const int64_t rate = 48000;
  const auto seconds = at::arange(rate, at::kDouble) / rate;
  const auto tone = [&](double frequency) { return (seconds * frequency * 2 * M_PI).sin(); };
  // Each side swells and fades, the right one later, so that a shift in time and an exchange of sides are heard. Encoders are coarse where
  // a sound begins at full strength.
  const auto sound = at::stack({tone(440) * (1 - seconds) * seconds, tone(660) * (1 - seconds) * seconds.square()}).to(at::kFloat);
  // WebM counts in milliseconds, and its frames begin behind what Opus puts in front of a sound: 6.5 ms.
  for (const auto& [name, codec, most_early] : {std::tuple("clip.mp4", "mp4a", int64_t{0}), {"clip.webm", "A_OPUS", rate / 1000 * 7}}) {
    data::write_video(folder / name, clip(9), {9, 1}, {}, {}, {sound, rate});
    EXPECT_NE(io::read_text(folder / name).find(codec), std::string::npos) << name;
    expect_same(folder / name, clip(9), {9, 1});
    const auto heard = data::decode_sound(folder / name, {}, rate, 2);
    EXPECT_NEAR(static_cast<double>(heard.size(1)), rate, 1500) << name << ": no longer than a frame of sound more or less";
    const auto error_in_time = [&](const at::Tensor& part, int64_t first) {
      const auto length = std::min(part.size(1), rate - first - most_early);
      return test::relative_error(part.narrow(1, 0, length), sound.narrow(1, first + most_early, length));
    };
    EXPECT_LE(error_in_time(heard, 0), 0.05) << name;
    EXPECT_LE(error_in_time(data::decode_sound(folder / name, {{1, 2}, {1, 4}}, rate, 2), rate / 2), 0.05) << name << ": a window of it";
  }
}

TEST(VideoFile, OtherEncodersTakeItsPlace) {
  test::Scratch folder;
  data::write_video(folder / "clip.mp4", clip(5), {24, 1}, {}, {"no_such_encoder", "mpeg4"});
  expect_same(folder / "clip.mp4", clip(5), {24, 1});
  auto refusal = test::error_of([&] { data::write_video(folder / "none.mp4", clip(2), {16, 1}, {}, {"this_one", "that_one"}); });
  EXPECT_THAT(refusal, testing::AllOf(HasSubstr("none.mp4"), HasSubstr("none of the encoders this_one, that_one")));
  EXPECT_FALSE(std::filesystem::exists(folder / "none.mp4"));
}

TEST(VideoFile, OddSidesAreFilledUpWhereTheyMustBe) {
  test::Scratch folder;
  data::write_video(folder / "odd.mp4", clip(2, 33, 65), {16, 1});
  EXPECT_EQ(data::look_at_clip(folder / "odd.mp4").size, (data::Size{34, 66}));
  data::write_video(folder / "odd.webm", clip(2, 33, 65), {16, 1});
  EXPECT_EQ(data::look_at_clip(folder / "odd.webm").size, (data::Size{33, 65}));
}

TEST(VideoFile, ItsIndexIsInFrontAndItsTextInIt) {
  test::Scratch folder;
  for (const char* name : {"clip.mp4", "clip.webm"}) {
    data::write_video(folder / name, clip(3), {16, 1}, {{"prompt", "a cat in Köln"}, {"seed", "42"}});
    auto bytes = io::read_text(folder / name);
    EXPECT_NE(bytes.find("a cat in Köln"), bytes.npos) << name;
    auto text = data::read_video_text(folder / name);
    EXPECT_EQ(text["prompt"] + ", " + text["seed"], "a cat in Köln, 42") << name;
  }
  auto bytes = io::read_text(folder / "clip.mp4");
  EXPECT_LT(bytes.find("moov"), bytes.find("mdat"));
}
