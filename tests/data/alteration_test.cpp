// Changes of pictures beside torchvision's (tests/golden/make_alterations.py), and what is drawn for a picture's variants.
#include "data/alteration.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "data/augmentation.h"
#include "data/resize.h"
#include "tests/golden.h"

using namespace burnish;
using data::Alteration;

namespace {

Alteration alteration_of(const at::Tensor& numbers) {
  const auto* n = numbers.const_data_ptr<double>();
  return {n[0], n[1], n[2], n[3], n[4]};
}

/// The largest difference of two pictures, and the share of their numbers that differ.
std::pair<int64_t, double> difference(const at::Tensor& a, const at::Tensor& b) {
  const auto off = (a.to(at::kInt) - b.to(at::kInt)).abs();
  return {off.max().item<int64_t>(), off.ne(0).to(at::kDouble).mean().item<double>()};
}

}  // namespace

TEST(Alteration, EqualsTorchvisions) {
  const auto file = test::golden("alterations.safetensors");
  const auto picture = file.tensor("picture");
  int num_cases = 0;
  for (; file.contains("case." + std::to_string(num_cases)); ++num_cases) {
    const auto number = std::to_string(num_cases);
    const auto alteration = alteration_of(file.tensor("numbers." + number));
    // Halves between two levels round either way, by the last bit.
    const auto [most, share] = difference(data::altered(picture, alteration), file.tensor("case." + number));
    EXPECT_LE(most, 1) << data::spelled(alteration);
    EXPECT_LE(share, 0.005) << data::spelled(alteration);
    const auto mask = data::altered(picture.narrow(2, 0, 1), alteration);
    EXPECT_LE(difference(mask, file.tensor("mask." + number)).first, 1) << data::spelled(alteration);
  }
  EXPECT_EQ(num_cases, 12);
}

TEST(Alteration, OfAPictureWithTransparencyCountsColoursByIt) {
  auto pixels = at::zeros({9, 9, 4}, at::kByte);
  pixels.narrow(2, 0, 1).fill_(200);
  pixels.narrow(0, 2, 5).narrow(1, 2, 5).narrow(2, 3, 1).fill_(255);
  const auto turned = data::altered(pixels, {.angle = 30});
  const auto seen = turned.select(2, 3).gt(0);
  EXPECT_TRUE(seen.any().item<bool>() && turned.select(2, 3).lt(255).logical_and(seen).any().item<bool>());
  EXPECT_EQ(turned.select(2, 0).masked_select(seen).min().item<int>(), 200);  // not darkened where it fades
}

TEST(Alteration, ComesAfterCroppingAndMirroring) {
  const auto picture = test::golden("alterations.safetensors").tensor("picture");
  const data::Crop crop{.size = {16, 16}, .left = 3, .flip = true};
  auto changed = crop;
  changed.alteration = {.angle = 12, .contrast = 1.4};
  EXPECT_TRUE(at::equal(data::resize_and_crop(picture, changed), data::altered(data::resize_and_crop(picture, crop), changed.alteration)));
}

TEST(Augmentation, DrawsWithinItsRangesForEachVariant) {
  const data::Augmentation how{
      .rotate = {20}, .brightness = {0.3}, .contrast = {1.5}, .saturation = {0.2}, .hue = {1}, .num_variants = 400};
  std::array<double, 5> least{1e9, 1e9, 1e9, 1e9, 1e9}, most{-1e9, -1e9, -1e9, -1e9, -1e9};
  for (int64_t variant = 0; variant < how.num_variants; ++variant) {
    const auto a = data::alteration_of(how, 77, variant);
    EXPECT_EQ(a, data::alteration_of(how, 77, variant));
    EXPECT_NE(a, data::alteration_of(how, 78, variant));
    const std::array<double, 5> numbers{a.angle, a.brightness, a.contrast, a.saturation, a.hue};
    for (size_t i = 0; i < 5; ++i) least[i] = std::min(least[i], numbers[i]), most[i] = std::max(most[i], numbers[i]);
  }
  const std::array<double, 5> low{-20, 0.7, 0, 0.8, -0.5}, high{20, 1.3, 2.5, 1.2, 0.5};
  for (size_t i = 0; i < 5; ++i) {
    const auto slack = (high[i] - low[i]) / 40;
    EXPECT_TRUE(least[i] >= low[i] && least[i] < low[i] + slack && most[i] <= high[i] && most[i] > high[i] - slack) << i;
  }
  EXPECT_EQ(data::alteration_of(how, 77, 1).hue == data::alteration_of(how, 77, 1).angle / 40, false);  // each has a draw of its own
}

TEST(Augmentation, FixedAmountsAreThoseOfEveryVariant) {
  const data::Augmentation how{.rotate = {0, -5}, .brightness = {0, 0.25}, .hue = {0, 0.5}};
  EXPECT_FALSE(how.varies());
  EXPECT_TRUE(how.alters() && how.is_any());
  const Alteration expected{.angle = -5, .brightness = 1.25, .hue = 0.25};
  for (int64_t variant : {0, 1, 5}) EXPECT_EQ(data::alteration_of(how, 9, variant), expected);
}
