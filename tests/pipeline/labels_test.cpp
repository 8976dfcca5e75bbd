#include <gtest/gtest.h>

#include "pipeline/schedule.h"

namespace burnish::labels_test {
using namespace burnish::pipeline;

namespace {

Unit unit(std::string name, std::vector<std::string> reads, std::vector<std::string> writes, std::vector<std::string> models = {}) {
  return {std::move(name), std::move(reads), std::move(writes), std::move(models), [](Scope&) {}};
}

const std::map<std::string, Labels> kInputs{
    {"image", {.sample = true}}, {"crop", {.augmentation = true}}, {"noise", {.timestep = true}}, {"table", {}}};

std::vector<std::string> names(const Units& units) {
  std::vector<std::string> list;
  for (const auto& u : units) list.push_back(u.name);
  return list;
}

}  // namespace

TEST(Labels, AreTheUnionOfWhatAValueDependsOn) {
  Units units{unit("encode", {"image"}, {"hidden"}, {"encoder.body"}), unit("project", {"hidden"}, {"tokens"}, {"encoder.head"}),
              unit("cut", {"image", "crop"}, {"cropped"}), unit("add", {"hidden", "noise"}, {"noisy"}),
              unit("fold", {"table"}, {"folded"})};
  auto labels = label(units, kInputs, {"encoder.head"}).values;
  EXPECT_EQ(labels["hidden"].text(), "D");
  EXPECT_EQ(labels["tokens"].text(), "Dθ");
  EXPECT_EQ(labels["cropped"].text(), "DA");
  EXPECT_EQ(labels["noisy"].text(), "DT");
  EXPECT_EQ(labels["folded"].text(), "-");
  EXPECT_TRUE(labels["folded"].fixed() && labels["hidden"].fixed());
  EXPECT_FALSE(labels["tokens"].fixed() || labels["cropped"].fixed() || labels["noisy"].fixed());
}

TEST(Labels, ATrainedPartMakesItsWholeModelTrainedAndNoOtherPart) {
  EXPECT_TRUE(is_trained("dit", {"dit"}));
  EXPECT_TRUE(is_trained("dit.blocks.0", {"dit"}));
  EXPECT_TRUE(is_trained("dit", {"dit.blocks.0"}));
  EXPECT_FALSE(is_trained("encoder.body", {"encoder.head"}));
  EXPECT_FALSE(is_trained("dit2", {"dit"}));
}

TEST(Labels, AFrozenEncoderAndATrainedHeadOfOneModelAreCutApart) {
  Units units{unit("encode", {"image"}, {"hidden"}, {"encoder.body"}), unit("project", {"hidden"}, {"tokens"}, {"encoder.head"})};
  auto c = schedule(units, kInputs, {"encoder.head"});
  EXPECT_EQ(names(c.once.units), std::vector<std::string>{"encode"});
  EXPECT_EQ(c.once.kept, std::vector<std::string>{"hidden"});
}

TEST(Labels, AUnitThatRewritesAValueStaysBehindThoseThatReadTheOldOne) {
  Units units{unit("encode", {"image"}, {"x"}), unit("use", {"x", "noise"}, {"y"}), unit("rewrite", {"x"}, {"x"}),
              unit("last", {"x", "y"}, {"z"})};
  auto c = schedule(units, kInputs, {});
  EXPECT_EQ(names(c.once.units), std::vector<std::string>{"encode"}) << "the cache holds the value that 'use' reads";
  EXPECT_EQ(names(c.live.units), (std::vector<std::string>{"use", "rewrite", "last"}));
  EXPECT_EQ(c.once.kept, std::vector<std::string>{"x"});
}

TEST(Labels, WhatALiveUnitOverwritesIsNotCarried) {
  Units units{unit("encode", {"image"}, {"x"}), unit("other", {"image"}, {"w"}), unit("replace", {"noise", "w"}, {"x"}),
              unit("last", {"x"}, {"z"})};
  EXPECT_EQ(schedule(units, kInputs, {}).once.kept, std::vector<std::string>{"w"});
}

}  // namespace burnish::labels_test
