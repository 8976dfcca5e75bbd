#include "base/text.h"

#include <gtest/gtest.h>

using namespace burnish;

TEST(Text, SplitListTrimsAndDropsEmptyParts) {
  EXPECT_EQ(split_list(" a, b,,c "), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(split_list("  ").empty());
}

TEST(Text, NearestNameFindsTyposAndNothingElse) {
  std::vector<std::string> known{"lora_rank", "learning_rate", "seed"};
  EXPECT_EQ(nearest_name("lora_rnak", known), "lora_rank");
  EXPECT_EQ(nearest_name("zzz", known), "");
}

TEST(Text, HumanUnits) {
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_bytes(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(human_seconds(185), "3m05s");
  EXPECT_EQ(human_seconds(3725), "1h02m");
}
