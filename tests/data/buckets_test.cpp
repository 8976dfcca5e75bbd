#include "data/buckets.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "data/resize.h"
#include "tests/golden.h"
#include "tests/scratch.h"

using namespace burnish;
using data::BucketRule;
using data::Size;
using ::testing::HasSubstr;

namespace {

Size size_of(const nlohmann::json& width_height) { return {width_height.at(1), width_height.at(0)}; }

BucketRule rule_of(const nlohmann::json& list) {
  return {.kind = list["rule"] == "kohya" ? BucketRule::Kind::kohya : BucketRule::Kind::onetrainer,
          .resolution = size_of(list["resolution"]),
          .least = list["least"],
          .most = list["most"],
          .step = list["step"]};
}

}  // namespace

TEST(Buckets, ListsAndChoicesAreThoseOfThePublishedRules) {
  const auto golden = nlohmann::json::parse(test::content(test::golden_path("data/buckets.json")));
  ASSERT_EQ(golden["lists"].size(), 8u);
  for (const auto& list : golden["lists"]) {
    auto rule = rule_of(list);
    SCOPED_TRACE(list["rule"].get<std::string>() + list["resolution"].dump());
    std::vector<Size> expected;
    for (const auto& size : list["sizes"]) expected.push_back(size_of(size));
    EXPECT_EQ(data::bucket_sizes(rule), expected);
    for (size_t i = 0; i < golden["pictures"].size(); ++i) {
      auto picture = size_of(golden["pictures"][i]);
      rule.upscale = false;
      EXPECT_EQ(data::bucket_of(rule, picture), size_of(list["own"][i])) << golden["pictures"][i];
      rule.upscale = true;
      EXPECT_EQ(data::bucket_of(rule, picture), size_of(list["upscaled"][i])) << golden["pictures"][i];
    }
  }
}

TEST(Buckets, NoPictureIsScaledUpUnlessAsked) {
  for (auto kind : {BucketRule::Kind::kohya, BucketRule::Kind::onetrainer}) {
    BucketRule rule{.kind = kind, .resolution = {1024, 1024}, .most = 2048};
    for (Size picture : {Size{300, 500}, Size{1000, 1000}, Size{400, 3000}, Size{1100, 990}, Size{4000, 3000}}) {
      auto bucket = data::bucket_of(rule, picture);
      EXPECT_TRUE(bucket.height <= picture.height && bucket.width <= picture.width) << picture.height << "x" << picture.width;
      EXPECT_TRUE(bucket.height % 64 == 0 && bucket.width % 64 == 0 && bucket.height > 0 && bucket.width > 0);
    }
  }
}

TEST(Buckets, AreTheSizesThatARuleGives) {
  data::SizeRule rule{.division = 16, .buckets = BucketRule{.resolution = {512, 512}, .upscale = true}};
  EXPECT_EQ(data::target_size(rule, {200, 300}, "a.png"), (Size{384, 640}));
  rule.buckets->upscale = false;
  EXPECT_EQ(data::target_size(rule, {200, 300}, "a.png"), (Size{192, 256}));
  EXPECT_THAT(test::error_of([&] { data::target_size(rule, {40, 300}, "a.png"); }), HasSubstr("smaller than the 64 pixels"));
}

TEST(Buckets, RulesWithoutABucketAreRefused) {
  auto refusal = [](BucketRule rule, int64_t division = 16) {
    return test::error_of([&] { data::check_buckets(rule, division); }, Exit::config);
  };
  EXPECT_THAT(refusal({.resolution = {512, 512}, .step = 24}), HasSubstr("multiple of 16"));
  EXPECT_THAT(refusal({.resolution = {32, 512}}), HasSubstr("smaller than a step"));
  EXPECT_THAT(refusal({.resolution = {512, 512}, .least = 640}), HasSubstr("min_bucket_reso"));
  EXPECT_THAT(refusal({.resolution = {2048, 512}}), HasSubstr("max_bucket_reso 1024 is below the resolution's 2048"));
}
