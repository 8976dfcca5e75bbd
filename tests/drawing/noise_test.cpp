// Noise is a picture's own: of its seed, or a row of a recording.
#include "drawing/noise.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/random_key.h"
#include "diffusion/flow_match.h"

using namespace burnish;
using drawing::Noise;
using drawing::Picture;

namespace {

std::vector<Picture> pictures_of(const std::vector<int64_t>& seeds) {
  std::vector<Picture> pictures(seeds.size());
  for (size_t i = 0; i < seeds.size(); ++i) pictures[i].seed = seeds[i];
  return pictures;
}

/// What a picture of `seed` draws for the n-th time.
at::Tensor drawn(uint64_t seed, uint64_t n, at::IntArrayRef shape) {
  return diffusion::normal_noise(RandomKey{seed, n, 0, Purpose::sample}.value(), shape);
}

}  // namespace

TEST(Noise, OfASeedDoesNotDependOnTheBatch) {
  Noise noise(pictures_of({7, 3, 7}));
  std::vector<int64_t> shape{4, 6, 8};
  auto all = noise.start(0, 3, shape);
  EXPECT_EQ(all.sizes(), (std::vector<int64_t>{3, 4, 6, 8}));
  EXPECT_TRUE(at::equal(all[0], drawn(7, 0, shape)));
  EXPECT_TRUE(at::equal(all[1], drawn(3, 0, shape)));
  EXPECT_TRUE(at::equal(all[2], all[0]));
  EXPECT_TRUE(at::equal(noise.start(1, 2, shape), all.narrow(0, 1, 2)));
}

TEST(Noise, OfEachStepIsAnother) {
  Noise noise(pictures_of({7, 3}));
  std::vector<int64_t> shape{4, 2, 2};
  EXPECT_TRUE(at::equal(noise.of_step(0, 1, 1, shape)[0], drawn(3, 1, shape)));
  EXPECT_TRUE(at::equal(noise.of_step(5, 0, 2, shape)[0], drawn(7, 6, shape)));
}

TEST(Noise, HasAnyShape) {
  Noise noise(pictures_of({7}));
  EXPECT_EQ(noise.start(0, 1, {16, 5, 6, 8}).sizes(), (std::vector<int64_t>{1, 16, 5, 6, 8}));
}

TEST(Noise, OfAFurtherStreamIsItsOwn) {
  Noise noise(pictures_of({7}));
  const std::vector<int64_t> shape{4, 2, 2};
  EXPECT_TRUE(at::equal(noise.start(0, 1, shape, "latents"), noise.start(0, 1, shape)));
  EXPECT_FALSE(at::equal(noise.start(0, 1, shape, "sound"), noise.start(0, 1, shape)));
  EXPECT_FALSE(at::equal(noise.start(0, 1, shape, "sound"), noise.start(0, 1, shape, "other")));
  auto start = at::zeros({1, 4, 2, 2});
  EXPECT_TRUE(
      at::equal(Noise(pictures_of({7}), {{models::kLatents, start}}, {}).start(0, 1, shape, "sound"), noise.start(0, 1, shape, "sound")))
      << "what is recorded is the first stream's";
  auto heard = at::ones({1, 4, 2, 2});
  EXPECT_TRUE(at::equal(Noise(pictures_of({7}), {{"sound", heard}}, {}).start(0, 1, shape, "sound"), heard));
}

TEST(Noise, RecordedIsReadByRow) {
  auto start = at::arange(3 * 4).reshape({3, 4}).to(at::kFloat), steps = at::arange(2 * 3 * 4).reshape({2, 3, 4}).to(at::kFloat);
  Noise both(pictures_of({1, 2, 3}), {{models::kLatents, start}}, steps);
  EXPECT_TRUE(at::equal(both.start(1, 2, {4}), start.narrow(0, 1, 2)));
  EXPECT_TRUE(at::equal(both.of_step(1, 2, 1, {4}), steps[1].narrow(0, 2, 1)));
  Noise only_start(pictures_of({1, 2, 3}), {{models::kLatents, start}}, {});
  EXPECT_TRUE(at::equal(only_start.of_step(0, 2, 1, {4})[0], drawn(3, 1, {4})));
}
