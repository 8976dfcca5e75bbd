#include "optim/groups.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/numbers_by_name.h"

namespace burnish::groups_test {
using namespace burnish::optim;

namespace {

ParameterList parameters() {
  ParameterList list;
  for (const char* name :
       {"unet.up.to_q.lora_A.weight", "unet.up.to_q.lora_B.weight", "unet.mid.to_k.lora_A.weight", "text_encoder.fc.bias"})
    list.push_back({name, at::zeros({1})});
  list[3].lr_factor = 0.5;
  return list;
}

std::string message(const GroupOptions& options) {
  try {
    auto list = parameters();
    if (options.loraplus_lr_ratio > 0) list.resize(1);
    apply_groups(list, options, 1e-4);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::config);
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(Groups, GoByComponentPathAndPattern) {
  auto list = parameters();
  apply_groups(list, {"unet=2e-4, unet.mid=3e-4", R"(.*\.bias=0,.*lora_[A-B]\.weight=0.2)", 0}, 1e-4);
  EXPECT_DOUBLE_EQ(list[0].lr_factor, 2);
  EXPECT_DOUBLE_EQ(list[2].lr_factor, 3);    // the last that fits
  EXPECT_DOUBLE_EQ(list[3].lr_factor, 0.5);  // what was there
  EXPECT_EQ(list[3].weight_decay, 0);
  EXPECT_EQ(list[1].weight_decay, 0.2);
  auto plain = parameters();
  apply_groups(plain, {}, 1e-4);
  EXPECT_EQ(plain[0].lr_factor, 1);
  EXPECT_FALSE(plain[0].weight_decay.has_value());
}

TEST(Groups, LoraPlusRaisesTheRateOfB) {
  auto list = parameters();
  apply_groups(list, {"unet=2e-4", "", 16}, 1e-4);
  EXPECT_DOUBLE_EQ(list[0].lr_factor, 2);
  EXPECT_DOUBLE_EQ(list[1].lr_factor, 32);
  EXPECT_DOUBLE_EQ(list[3].lr_factor, 0.5);
}

TEST(Groups, RefuseWhatFitsNothingOrCannotBeRead) {
  using testing::HasSubstr;
  EXPECT_THAT(message({"unett=1e-4"}), HasSubstr("'unett' fits nothing that trains"));
  EXPECT_THAT(message({"", "unet=-1"}), HasSubstr("weight_decay_groups must be a comma list of name=number"));
  EXPECT_THAT(message({"unet"}), HasSubstr("found 'unet'"));
  EXPECT_THAT(message({"unet(=1"}), HasSubstr("neither a name nor a regular expression"));
  EXPECT_THAT(message({"", "", 16}), HasSubstr("no LoRA trains"));
  EXPECT_EQ(message({"unet=1e-4"}), "no error");
}

TEST(NumbersByName, CommasInBracketsBelongToTheExpression) {
  NumbersByName numbers("base", "lora_rank", "a{1,2}=4,b=8");
  EXPECT_EQ(numbers.find("aa"), 4);
  EXPECT_EQ(numbers.find("b.c"), 8);
  EXPECT_FALSE(numbers.find("ab").has_value());
}

}  // namespace burnish::groups_test
