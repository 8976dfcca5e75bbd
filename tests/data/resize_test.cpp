#include "data/resize.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "data/image.h"
#include "data/row_scaler.h"
#include "tests/device.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using data::Size;
using test::error_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Resize, EqualsPillowBitForBit) {
  auto golden = test::golden("data.safetensors");
  int num_compared = 0;
  for (const auto& name : golden.names()) {
    if (!name.starts_with("resize.")) continue;
    auto source = name.substr(7, name.rfind('.') - 7);
    auto expected = golden.tensor(name);
    auto found = data::resize_and_crop(golden.tensor("source." + source), data::Size{expected.size(0), expected.size(1)});
    ASSERT_EQ(found.sizes(), expected.sizes()) << name;
    EXPECT_EQ((found.to(at::kInt) - expected.to(at::kInt)).abs().max().item<int>(), 0) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 18);
}

TEST(Resize, OfTransparencyEqualsPillowBitForBit) {
  auto file = test::golden("qwen_layered_pipeline/scaled.safetensors");
  auto scaled = data::resize_and_crop(file.tensor("picture"), data::Size{30, 40});
  EXPECT_TRUE(at::equal(scaled, file.tensor("scaled")));
}

TEST(Resize, ScalesRowsFirstWherePillowDoes) {
  auto golden = test::golden("resample.safetensors");
  int num_compared = 0;
  for (const auto& name : golden.names()) {
    if (!name.starts_with("cover.")) continue;
    auto expected = golden.tensor(name), source = golden.tensor("source." + name.substr(6, name.find('.', 6) - 6));
    const Size size{source.size(0), source.size(1)}, target{expected.size(0), expected.size(1)};
    EXPECT_TRUE(at::equal(data::resize_and_crop(source, target), expected)) << name;
    auto mirrored = data::centre_crop(size, target);
    mirrored.flip = true;
    EXPECT_TRUE(at::equal(data::resize_and_crop(source, mirrored).flip({1}), expected)) << name;
    ++num_compared;
  }
  EXPECT_EQ(num_compared, 4);
}

TEST(Resize, ComputesOnlyWhatIsKept) {
  // Covering 512 x 512 with a strip this thin makes a picture of 512 x 10,240,000, of which almost all is cut off.
  auto strip = at::full({1, 20000, 3}, 200, at::kByte);
  auto out = data::resize_and_crop(strip, data::Size{512, 512});
  EXPECT_EQ(out.sizes(), (std::vector<int64_t>{512, 512, 3}));
  EXPECT_TRUE(out.eq(200).all().item<bool>());
}

TEST(Resize, MirrorsWhatItScales) {
  auto pixels = data::decode_image(test::golden_path("data/rgb.png"));
  auto mirrored = data::resize_and_crop(pixels, data::Crop{{16, 16}, 0, 3, true});
  EXPECT_TRUE(at::equal(mirrored, data::resize_and_crop(pixels, data::Crop{{16, 16}, 0, 3}).flip({1})));
}

TEST(Resize, WhatIsNotScaledIsCutOut) {
  auto pixels = at::arange(40 * 60 * 3).to(at::kByte).view({40, 60, 3});
  for (const auto& crop : {data::Crop{{40, 32}, 0, 7}, data::Crop{{20, 60}, 13, 0, true}, data::Crop{{40, 60}}}) {
    data::RowScaler scaler({40, 60}, 3, crop);
    for (int64_t y = 0; y < 40; ++y) scaler.take(pixels[y].const_data_ptr<uint8_t>());
    EXPECT_TRUE(at::equal(data::resize_and_crop(pixels, crop), scaler.scaled_HWC()));
  }
}

TEST(Resize, WhileItIsDecodedGivesTheSame) {
  int num_pictures = 0;
  for (const char* folder : {"data", "data/formats"}) {
    for (const auto& entry : std::filesystem::directory_iterator(test::golden_path(folder))) {
      if (!entry.is_regular_file() || entry.path().extension() == ".json") continue;
      SCOPED_TRACE(entry.path().string());
      auto pixels = data::decode_image(entry.path());
      Size size{pixels.size(0), pixels.size(1)}, target{size.height * 2 / 3, size.width * 2 / 3 - 4};
      auto crop = data::centre_crop(size, target);
      EXPECT_TRUE(at::equal(data::decode_and_crop(entry.path(), size, crop), data::resize_and_crop(pixels, crop)));
      ++num_pictures;
    }
  }
  EXPECT_GT(num_pictures, 50);
}

TEST(Resize, APictureThatWasChangedMeanwhile) {
  auto file = test::golden_path("data/rgb.jpg");
  auto size = data::image_size(file);
  data::Size other{size.height + 1, size.width};
  EXPECT_THAT(error_of([&] {
                data::decode_and_crop(file, other, data::centre_crop(other, {16, 16}));
              }),
              AllOf(HasSubstr("rgb.jpg"), HasSubstr("was changed while this run was reading it")));
}

TEST(TargetSize, FollowsTheDynamicRule) {
  data::SizeRule rule;
  auto size = [&](int64_t width, int64_t height) { return data::target_size(rule, {height, width}, "f"); };
  EXPECT_EQ(size(4000, 3000), (Size{880, 1168}));
  EXPECT_EQ(size(1920, 1080), (Size{768, 1360}));
  EXPECT_EQ(size(800, 600), (Size{592, 800}));
  EXPECT_EQ(size(1023, 517), (Size{512, 1008}));
  EXPECT_EQ(size(16, 16), (Size{16, 16})) << "never scaled up";
  EXPECT_EQ(size(1024, 1024), (Size{1024, 1024}));
  rule.division = 64;
  EXPECT_EQ(size(800, 600), (Size{576, 768}));
  rule.height = 256;
  rule.width = 128;
  EXPECT_EQ(size(4000, 3000), (Size{256, 128})) << "fixed";
}

TEST(TargetSize, RefusesWhatCannotBe) {
  data::SizeRule rule;
  EXPECT_THAT(error_of([&] {
                data::target_size(rule, {300, 15}, "thin.png");
              }),
              AllOf(HasSubstr("thin.png is 15 by 300"), HasSubstr("16")));
  rule.max_pixels = 4096;  // 1:300 scaled down to 4096 pixels is thinner than 16
  EXPECT_THAT(error_of([&] { data::target_size(rule, {6000, 20}, "thin.png"); }), HasSubstr("thin.png is 20 by 6000"));
  auto refused = [](int64_t height, int64_t width, int64_t max_pixels, int64_t division) {
    return error_of([&] { data::target_size({height, width, max_pixels, division}, {64, 64}, "f"); }, Exit::config);
  };
  EXPECT_THAT(refused(64, 0, 4096, 16), HasSubstr("both height and width"));
  EXPECT_THAT(refused(0, 64, 4096, 16), HasSubstr("both height and width"));
  EXPECT_THAT(refused(-64, -64, 4096, 16), HasSubstr("must be positive"));
  EXPECT_THAT(refused(0, 0, 0, 16), HasSubstr("max_pixels must be at least 1, not 0"));
  EXPECT_THAT(refused(0, 0, 4096, 0), HasSubstr("multiples of at least 1"));
}

TEST(TargetSize, WithinASideNothingGrowsOrVanishes) {
  EXPECT_EQ(data::within({300, 900}, 320), (Size{106, 320}));
  EXPECT_EQ(data::within({900, 300}, 320), (Size{320, 106}));
  EXPECT_EQ(data::within({30, 40}, 320), (Size{30, 40}));
  EXPECT_EQ(data::within({1, 4000}, 320), (Size{1, 320}));
}

TEST(ModelRange, GivesEveryByteTheSameNumberOnEveryDevice) {
  auto pixels = at::arange(0, 256, at::kInt).to(at::kByte).view({16, 16, 1}).expand({16, 16, 3}).contiguous();
  auto image = data::to_model_range(pixels), there = data::to_model_range(test::on_device(pixels));
  for (int64_t i = 0; i < 256; ++i)
    EXPECT_EQ(image[2][i / 16][i % 16].item<float>(), static_cast<float>(i) / 127.5F - 1) << i << ", to the last bit";
  EXPECT_TRUE(at::equal(there.cpu(), image));
}

TEST(ModelRange, GoesThereAndBack) {
  auto pixels = at::arange(0, 256, at::kInt).to(at::kByte).view({16, 16, 1}).expand({16, 16, 3}).contiguous();
  auto image = data::to_model_range(pixels);
  EXPECT_EQ(image.sizes(), (std::vector<int64_t>{3, 16, 16}));
  EXPECT_EQ(image.min().item<float>(), -1);
  EXPECT_EQ(image.max().item<float>(), 1);
  EXPECT_TRUE(at::equal(data::to_pixels(image), pixels));
  EXPECT_EQ(data::to_pixels(image * 1.5).max().item<int>(), 255) << "clamped";
  EXPECT_EQ(data::to_pixels(image * 1.5).min().item<int>(), 0) << "clamped";
}
