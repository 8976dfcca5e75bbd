// The size that stands for all samples of a run.
#include "train/course/data_summary.h"

#include <gtest/gtest.h>

using namespace burnish;
using namespace burnish::train;

namespace {

/// Samples of these sizes, width before height, each so often.
Samples samples_of(const std::vector<std::tuple<int64_t, int64_t, int64_t>>& sizes, size_t set = 0) {
  Samples samples;
  for (const auto& [width, height, count] : sizes) {
    for (int64_t i = 0; i < count; ++i) samples.list.push_back({.extent = {1, height, width}, .row = {.subset = set}});
  }
  return samples;
}

std::string usual(const std::vector<std::tuple<int64_t, int64_t, int64_t>>& sizes) { return text_of(usual_extent(samples_of(sizes))); }

}  // namespace

TEST(UsualExtent, HasTheMedianAreaAndOfSuchTheMostFrequentShape) {
  EXPECT_EQ(usual({{64, 48, 1}}), "64x48");
  EXPECT_EQ(usual({{512, 512, 9}, {1024, 1024, 1}}), "512x512") << "one large picture makes no large ones";
  EXPECT_EQ(usual({{256, 256, 3}, {768, 768, 4}, {1536, 1536, 3}}), "768x768");
  // Buckets of about one area: the median by pixels alone would be any of them.
  EXPECT_EQ(usual({{832, 1216, 30}, {896, 1152, 5}, {1024, 1024, 10}, {1152, 896, 6}}), "832x1216");
  // Every picture its own size: the one in the middle, though a far size has as many.
  EXPECT_EQ(usual({{400, 400, 1}, {640, 480, 1}, {800, 800, 1}}), "640x480");
  EXPECT_EQ(usual({{256, 256, 40}, {1024, 1024, 30}, {1024, 960, 31}}), "1024x960");
}

TEST(UsualExtent, LeavesClassSetsAside) {
  auto samples = samples_of({{512, 512, 3}});
  auto of_class = samples_of({{1024, 1024, 30}}, 1);
  samples.list.insert(samples.list.end(), of_class.list.begin(), of_class.list.end());
  samples.sets = {{}, {.of_class_set = true}};
  EXPECT_EQ(text_of(usual_extent(samples)), "512x512");
  of_class.sets = samples.sets;
  EXPECT_EQ(text_of(usual_extent(of_class)), "1024x1024") << "where there is nothing else";
}
