#include "data/image.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/error.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

std::string golden_picture(const std::string& name) { return test::golden_path("data/" + name); }

std::vector<std::string> picture_names() {
  std::vector<std::string> names;
  for (const auto& name : test::golden("data.safetensors").names()) {
    if (name.starts_with("pixels.")) names.push_back(name.substr(7));
  }
  return names;
}

std::string refusal(const std::filesystem::path& path) {
  auto text = error_of([&] { data::decode_image(path); });
  EXPECT_THAT(text, HasSubstr(path.filename().string()));
  return text;
}

std::string big_endian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

/// A PNG whose header claims another size, with the checksum that goes with it.
std::string png_of_size(uint32_t width, uint32_t height) {
  auto bytes = test::content(golden_picture("rgb.png"));
  bytes.replace(16, 8, big_endian(width) + big_endian(height));
  uint32_t crc = 0xFFFFFFFF;
  for (size_t i = 12; i < 29; ++i) {
    crc ^= static_cast<unsigned char>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
  }
  return bytes.replace(29, 4, big_endian(~crc));
}

}  // namespace

TEST(EveryPicture, IsReadAsPillowReadsIt) {
  auto golden = test::golden("data.safetensors");
  EXPECT_EQ(picture_names().size(), 25u);
  for (const auto& name : picture_names()) {
    auto expected = golden.tensor("pixels." + name);
    auto found = data::decode_image(golden_picture(name));
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    EXPECT_EQ(found.scalar_type(), at::kByte) << name;
    EXPECT_EQ((found.to(at::kInt) - expected.to(at::kInt)).abs().max().item<int>(), 0) << name;
    EXPECT_EQ(data::image_size(golden_picture(name)), (data::Size{expected.size(0), expected.size(1)})) << name;
  }
}

TEST(EveryPicture, IsToldByItsContent) {
  Scratch scratch;
  for (const auto& name : picture_names()) {
    auto renamed = scratch.write("picture.txt", test::content(golden_picture(name)));
    EXPECT_TRUE(at::equal(data::decode_image(renamed), data::decode_image(golden_picture(name)))) << name;
  }
}

TEST(EveryPicture, CutShortIsRefusedOrWhole) {
  Scratch scratch;
  for (const auto& name : picture_names()) {
    auto whole = test::content(golden_picture(name));
    auto pixels = data::decode_image(golden_picture(name));
    size_t num_tried = 0, num_refused = 0;
    for (size_t length = 0; length < whole.size(); length += 17, ++num_tried) {
      auto cut = scratch.write("cut", whole.substr(0, length));
      try {
        // Only what carries no pixels may be missing.
        EXPECT_TRUE(at::equal(data::decode_image(cut), pixels)) << name << ", " << length << " of " << whole.size() << " bytes";
      } catch (const Error& error) {
        ++num_refused;
        EXPECT_EQ(error.code(), Exit::data);
        EXPECT_THAT(error.what(), HasSubstr("cut"));
      }
    }
    EXPECT_GT(num_refused, num_tried * 8 / 10) << name;
  }
}

TEST(Image, FlippedBytesNeverCrash) {
  Scratch scratch;
  uint64_t state = 1;
  for (const auto& name : picture_names()) {
    auto whole = test::content(golden_picture(name));
    for (int round = 0; round < 60; ++round) {
      auto bytes = whole;
      for (int flips = 0; flips < 3; ++flips) {
        state = state * 6364136223846793005 + 1442695040888963407;
        bytes[(state >> 33) % bytes.size()] ^= static_cast<char>(1 << (state >> 61));
      }
      auto path = scratch.write("flipped", bytes);
      try {
        data::decode_image(path);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::data);
      }
    }
  }
}

TEST(Image, WhatIsNoPicture) {
  Scratch scratch;
  EXPECT_THAT(refusal(scratch.write("empty.png", "")), HasSubstr("the file is empty"));
  EXPECT_THAT(refusal(scratch.write("text.jpg", "<html>not found</html>")),
              HasSubstr("not a JPEG, PNG, WebP, TIFF, HEIC, AVIF, JPEG XL, GIF or BMP picture"));
  EXPECT_THAT(refusal(scratch / "absent.jpg"), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { data::decode_image(scratch.path()); }), HasSubstr("it is a folder, not a regular file"));
  EXPECT_THAT(refusal(scratch.write("head.jpg", "\xFF\xD8\xFF")), HasSubstr("cannot be decoded"));
  EXPECT_THAT(refusal(scratch.write("head.png", "\x89PNG\r\n\x1A\n")), HasSubstr("cannot be decoded"));
  EXPECT_THAT(refusal(scratch.write("head.webp", std::string("RIFF\4\0\0\0WEBP", 12))), HasSubstr("cannot be decoded"));
}

TEST(Image, ZeroOrAbsurdSizes) {
  Scratch scratch;
  EXPECT_NO_THROW(data::decode_image(scratch.write("same.png", png_of_size(26, 19))));
  EXPECT_THAT(refusal(scratch.write("zero.png", png_of_size(0, 19))), HasSubstr("cannot be decoded"));
  EXPECT_THAT(refusal(scratch.write("flat.png", png_of_size(26, 0))), HasSubstr("cannot be decoded"));
  EXPECT_THAT(refusal(scratch.write("huge.png", png_of_size(900'000, 900'000))), HasSubstr("at most 268 million are read"));
  EXPECT_THAT(refusal(scratch.write("huger.png", png_of_size(0x7fffffff, 0x7fffffff))), HasSubstr("cannot be decoded"));
  EXPECT_THAT(error_of([&] { data::image_size(scratch / "huge.png"); }), HasSubstr("huge.png"));
}

/// A picture of many pixels in a small file takes no more memory than its own rows: measured as the most that a process of its own held.
TEST(Image, BytesAPixelWhileItIsDecoded) {
  Scratch scratch;
  constexpr int64_t kSide = 3000;
  auto pixels = at::full({kSide, kSide, 3}, 200, at::kByte);
  data::write_png(scratch / "plain.png", pixels);
  scratch.write("plain.webp", data::encode_webp(pixels, 80));
  auto bytes_a_pixel = [&](const std::string& name) {
    auto child = fork();
    if (child == 0) {
      auto held = [](const char* what) {
        auto status = test::content("/proc/self/status");
        return std::atoll(status.c_str() + status.find(what) + std::strlen(what)) * 1024;
      };
      auto before = held("VmRSS:");
      data::decode_image(scratch / name);
      auto most = (held("VmHWM:") - before) / (kSide * kSide);
      _exit(static_cast<int>(std::min<int64_t>(most, 255)));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
  };
  pixels.reset();
  EXPECT_LE(bytes_a_pixel("plain.png"), 4);
  EXPECT_LE(bytes_a_pixel("plain.webp"), 5);
}

TEST(Image, AlphaIsWhatLetsWhiteThrough) {
  for (const char* name : {"rgba.png", "rgba.webp", "gray_alpha.png"}) {
    auto pixels = data::decode_image(golden_picture(name)), alpha = data::decode_alpha(golden_picture(name));
    ASSERT_EQ(alpha.sizes(), (std::vector<int64_t>{pixels.size(0), pixels.size(1), 1})) << name;
    EXPECT_NE(alpha.min().item<int>(), alpha.max().item<int>()) << name;
    auto darkest = pixels.amin(2, true).to(at::kInt);
    EXPECT_TRUE((darkest >= 255 - alpha.to(at::kInt)).all().item<bool>()) << name << ": white shows to the share that is not covered";
  }
  EXPECT_TRUE((data::decode_alpha(golden_picture("rgb.jpg")) == 255).all().item<bool>());
  auto turned = data::decode_image(golden_picture("exif_6.png")), opaque = data::decode_alpha(golden_picture("exif_6.png"));
  EXPECT_EQ(opaque.sizes().slice(0, 2), turned.sizes().slice(0, 2));
}

TEST(Image, WithItsTransparencyItKeepsTheColoursOfTheFile) {
  test::Scratch scratch;
  auto pixels = at::randint(0, 256, {5, 7, 4}, at::kByte);
  data::write_png(scratch / "rgba.png", pixels, {{"prompt", "layer"}});
  EXPECT_TRUE(at::equal(data::decode_rgba(scratch / "rgba.png"), pixels));
  EXPECT_TRUE(at::equal(data::decode_alpha(scratch / "rgba.png"), pixels.narrow(2, 3, 1)));
  EXPECT_EQ(data::read_png_text(scratch / "rgba.png")["prompt"], "layer");
  data::write_png(scratch / "rgb.png", pixels.narrow(2, 0, 3));
  auto opaque = data::decode_rgba(scratch / "rgb.png");
  EXPECT_TRUE(at::equal(opaque.narrow(2, 0, 3), pixels.narrow(2, 0, 3)));
  EXPECT_EQ(opaque.narrow(2, 3, 1).min().item<int64_t>(), 255);
}

TEST(Image, GrayIsTheMeanOfTheChannels) {
  auto pixels = data::decode_image(golden_picture("rgb.png")), gray = data::decode_gray(golden_picture("rgb.png"));
  auto mean = pixels.to(at::kDouble).mean(2, true);
  EXPECT_LE((gray.to(at::kDouble) - mean).abs().max().item<double>(), 0.34);
  EXPECT_TRUE(
      at::equal(data::decode_gray(golden_picture("gray_16.png")).expand({-1, -1, 3}), data::decode_image(golden_picture("gray_16.png"))));
}

TEST(Image, AWrittenPngIsReadBack) {
  Scratch scratch;
  auto pixels = data::decode_image(golden_picture("rgb.png"));
  data::write_png(scratch / "a.png", pixels.flip({0}), {{"prompt", "a fox 🦊"}, {"seed", "7"}});
  EXPECT_TRUE(at::equal(data::decode_image(scratch / "a.png"), pixels.flip({0})));
  EXPECT_EQ(data::read_png_text(scratch / "a.png"), (std::map<std::string, std::string>{{"prompt", "a fox 🦊"}, {"seed", "7"}}));
  EXPECT_THAT(error_of([&] { data::read_png_text(scratch.write("b.png", "no picture")); }), HasSubstr("b.png cannot be decoded"));
}

TEST(Image, AnEncodedWebpIsNearlyThePicture) {
  Scratch scratch;
  auto pixels = data::decode_image(golden_picture("rgb.png"));
  auto read = data::decode_image(scratch.write("a.webp", data::encode_webp(pixels, 90)));
  ASSERT_EQ(read.sizes(), pixels.sizes());
  EXPECT_LE((read.to(at::kFloat) - pixels.to(at::kFloat)).abs().mean().item<double>(), 8);
}
