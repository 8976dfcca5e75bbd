#include "memory/dry_run.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "kernels/aside.h"

using namespace burnish;

TEST(DryRun, WritesDownWhatIsTakenWhereAndWhenItIsFreed) {
  memory::DryRun dry(c10::Device(c10::kCPU));
  auto options = at::TensorOptions().device(at::kMeta);
  dry.enter("here");
  auto kept = at::empty({10}, options.dtype(at::kFloat));
  dry.enter("there");
  at::empty({3}, options.dtype(at::kDouble));
  ASSERT_EQ(dry.allocations().size(), 2u);
  EXPECT_EQ(dry.number_of(kept), 0u);
  EXPECT_EQ(dry.allocations()[0].num_bytes, 40);
  EXPECT_EQ(dry.allocations()[0].place, "here");
  EXPECT_GT(dry.allocations()[0].freed, dry.now());
  EXPECT_EQ(dry.allocations()[1].num_bytes, 24);
  EXPECT_EQ(dry.allocations()[1].place, "there");
  EXPECT_LT(dry.allocations()[1].freed, dry.now());
}

TEST(DryRun, LeavesOutShapesThatAreOnlyLookedAt) {
  memory::DryRun dry(c10::Device(c10::kCPU));
  auto options = at::TensorOptions().device(at::kMeta);
  {
    kernels::Aside aside;
    auto shape = at::empty({10}, options);
    EXPECT_FALSE(dry.number_of(shape));
  }
  at::empty({10}, options);
  EXPECT_EQ(dry.allocations().size(), 1u);
}
