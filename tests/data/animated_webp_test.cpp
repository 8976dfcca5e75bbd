// Clips as animated WebP, read back by libwebp's own decoder of animations.
#include "data/animated_webp.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <webp/demux.h>

#include "base/error.h"
#include "data/image.h"
#include "io/files.h"
#include "tests/scratch.h"

using namespace burnish;
using testing::ElementsAre;

namespace {

/// Frame k is of one gray, 20 + 40 k, with a white column that moves.
at::Tensor clip(int64_t num_frames) {
  auto frames = at::empty({3, num_frames, 24, 40}, at::TensorOptions().dtype(at::kByte));
  for (int64_t k = 0; k < num_frames; ++k) {
    frames.select(1, k).fill_(20 + 40 * k);
    frames.select(1, k).narrow(2, 8 * (k % 4), 8).fill_(250);
  }
  return frames;
}

struct Played {
  std::vector<int> ends;  ///< milliseconds at which frames end
  std::vector<at::Tensor> frames_HW4;
  uint32_t loop_count = 7;
};

Played play(const std::filesystem::path& path) {
  const auto bytes = io::read_text(path);
  WebPData data{reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> decoder(WebPAnimDecoderNew(&data, nullptr), WebPAnimDecoderDelete);
  Played played;
  if (!decoder) return played;
  WebPAnimInfo about;
  WebPAnimDecoderGetInfo(decoder.get(), &about);
  played.loop_count = about.loop_count;
  while (WebPAnimDecoderHasMoreFrames(decoder.get())) {
    uint8_t* pixels = nullptr;
    int end = 0;
    if (!WebPAnimDecoderGetNext(decoder.get(), &pixels, &end)) break;
    played.ends.push_back(end);
    auto& frame = played.frames_HW4.emplace_back(at::empty({about.canvas_height, about.canvas_width, 4}, at::kByte));
    std::copy_n(pixels, frame.numel(), frame.mutable_data_ptr<uint8_t>());
  }
  return played;
}

}  // namespace

TEST(AnimatedWebp, PlaysForEverAndItsTimesAreRoundedEachByItself) {
  test::Scratch folder;
  auto frames = clip(5);
  data::write_webp(folder / "clip.webp", frames, 16);
  auto played = play(folder / "clip.webp");
  EXPECT_THAT(played.ends, ElementsAre(63, 125, 188, 250, 313));  // of 62.5 each
  EXPECT_EQ(played.loop_count, 0u);
  ASSERT_EQ(played.frames_HW4.size(), 5u);
  for (int64_t k = 0; k < 5; ++k) {
    auto found = played.frames_HW4[static_cast<size_t>(k)].narrow(2, 0, 3).to(at::kFloat);
    EXPECT_LE((found - data::frame_of_clip(frames, k).to(at::kFloat)).abs().mean().item<double>(), 4) << k;
  }
  data::write_webp(folder / "film.webp", frames, 24000.0 / 1001);
  EXPECT_THAT(play(folder / "film.webp").ends, ElementsAre(42, 83, 125, 167, 209));
}

TEST(AnimatedWebp, ItsTextComesBack) {
  test::Scratch folder;
  const std::string prompt = "a \"cat\" & <b>\nÜber  &amp; burnish:seed=\"3\"\t";
  data::write_webp(folder / "clip.webp", clip(2), 16, {{"prompt", prompt}, {"seed", "42"}, {"lora", ""}});
  EXPECT_THAT(data::read_webp_text(folder / "clip.webp"),
              ElementsAre(std::pair("lora", ""), std::pair("prompt", prompt), std::pair("seed", "42")));
  EXPECT_EQ(data::image_size(folder / "clip.webp"), (data::Size{24, 40}));
}

TEST(AnimatedWebp, OneFrameIsAPicture) {
  test::Scratch folder;
  data::write_webp(folder / "one.webp", clip(1), 16, {{"prompt", "cat"}});
  auto found = data::decode_image(folder / "one.webp").to(at::kFloat);
  EXPECT_LE((found - data::frame_of_clip(clip(1), 0).to(at::kFloat)).abs().mean().item<double>(), 4);
  EXPECT_EQ(data::read_webp_text(folder / "one.webp")["prompt"], "cat");
}

TEST(AnimatedWebp, TextOfOthersIsLeftOutAndWhatIsNoWebpRefused) {
  test::Scratch folder;
  io::write_text_atomic(folder / "plain.webp", data::encode_webp(data::frame_of_clip(clip(1), 0), 80));
  EXPECT_TRUE(data::read_webp_text(folder / "plain.webp").empty());
  io::write_text_atomic(folder / "none.webp", "RIFF and no more");
  EXPECT_THAT(test::error_of([&] { data::read_webp_text(folder / "none.webp"); }, Exit::data), testing::HasSubstr("none.webp"));
}
