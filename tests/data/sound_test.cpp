// Sound beside frames, right by sample (tests/golden/make_clips.py): a click at 0.5 s.
#include "data/sound.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using data::SoundWindow;

namespace {

std::string clip(const std::string& name) { return test::golden_path("clips/" + name); }

/// Seconds from the window's start to the click in it, which is the loudest sample.
double click(const std::string& name, const SoundWindow& window, int64_t rate) {
  auto sound = data::decode_sound(clip(name), window, rate, 1)[0].abs();
  EXPECT_GT(sound.max().item<double>(), 0.05) << name;
  return static_cast<double>(sound.argmax().item<int64_t>()) / static_cast<double>(rate);
}

}  // namespace

TEST(Sound, LiesWhereItsTimesSay) {
  const double kSamples = 24;  // the click's own length, at 48 kHz
  EXPECT_NEAR(click("sound.mp4", {}, 44100), 0.5, kSamples / 44100) << "what an encoder puts in front is left out";
  EXPECT_NEAR(click("sound.mkv", {}, 48000), 0.493, 0.001) << "its frames begin at 7 ms";
  EXPECT_NEAR(click("sound_late.mp4", {}, 44100), 0.8, 0.001);
  EXPECT_NEAR(click("sound_cut.mp4", {}, 44100), 0.1, 0.001) << "an edit list leaves out what is before";
  EXPECT_NEAR(click("sound.wav", {}, 4000), 0.5, 2.0 / 4000);
  EXPECT_NEAR(click("sound.mp4", {{2, 5}, {1, 5}}, 44100), 0.1, kSamples / 44100) << "by the window's start";
}

TEST(Sound, AWindowIsFilledUpWithSilence) {
  auto sound = data::decode_sound(clip("sound.wav"), {{1, 2}, {1, 1}}, 4000, 1)[0];
  ASSERT_EQ(sound.size(0), 4000);
  EXPECT_EQ(sound.narrow(0, 400, 3600).abs().max().item<double>(), 0);
  EXPECT_NEAR(sound[1].item<double>(), (0.9 + 0.3) / 2, 1e-3) << "the mean of both channels";
  EXPECT_EQ(data::decode_sound(clip("sound.wav"), {}, 4000, 1)[0].size(0), 2400);
  EXPECT_EQ(data::decode_sound(clip("sound_late.mp4"), {{0, 1}, {1, 4}}, 16000, 1)[0].abs().max().item<double>(), 0)
      << "nothing before its start";
  auto silent = data::decode_sound(clip("base30.mp4"), {{0, 1}, {1, 2}}, 16000, 1)[0];
  EXPECT_EQ(silent.size(0), 8000);
  EXPECT_EQ(silent.abs().max().item<double>(), 0) << "a clip without sound";
}

TEST(Sound, ResampledTonesAreThemselves) {
  for (auto [from, to] : {std::pair<int64_t, int64_t>{44100, 16000}, {48000, 16000}, {8000, 16000}}) {
    auto tone = [](int64_t rate, int64_t count) {
      return at::sin(at::arange(count, at::kDouble) * (2 * M_PI * 440 / static_cast<double>(rate)));
    };
    auto resampled = data::resample(tone(from, from / 2 + 1).to(at::kFloat).unsqueeze(0), from, to);
    ASSERT_EQ(resampled.size(1), (to * (from / 2 + 1) + from - 1) / from);
    auto expected = tone(to, resampled.size(1));
    auto inner = [](const at::Tensor& t) { return t.narrow(-1, 100, 7000); };
    EXPECT_LE((inner(resampled[0].to(at::kDouble)) - inner(expected)).abs().max().item<double>(), 2e-3) << from << " to " << to;
  }
}

TEST(Sound, WhatIsNoSoundIsNamed) {
  test::Scratch scratch;
  auto path = scratch.write("none.wav", "no sound");
  EXPECT_THAT(test::error_of([&] { data::decode_sound(path, {}, 16000, 1)[0]; }), testing::HasSubstr("none.wav"));
}
