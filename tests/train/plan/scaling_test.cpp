#include "train/plan/scaling.h"

#include <gmock/gmock.h>

#include "base/error.h"

using namespace burnish;
using namespace burnish::train;

namespace {

constexpr double kGigabyte = 1e9, kStartUp = 50e-6;

/// A step that computes for 3 seconds, of which backward takes 2; 256 MiB of gradients in 20 buckets: of 1, fifteen times 16, 8, 4, 2
/// and 1.
const StepWork kWork{.multiplications = 1.5e12, .gradient_bytes = int64_t{256} << 20, .weight_bytes = int64_t{128} << 20};
const Machines kMachines{.processes_each = 4, .link = kGigabyte, .local_link = 4 * kGigabyte, .flops = 1e12};

/// Seconds in which so many MiB are summed in so many buckets.
double summing(double mebibytes, double num_buckets, double processes, double rate) {
  return 2 * (processes - 1) * (mebibytes * (1 << 20) / processes / rate + num_buckets * kStartUp);
}

}  // namespace

TEST(Scaling, OneProcessWaitsForNobody) {
  auto step = scaled(kWork, {.batch_size = 2, .batches_per_step = 3}, kMachines, 1);
  EXPECT_DOUBLE_EQ(step.seconds, 9);
  EXPECT_EQ(step.exposed, 0);
  EXPECT_DOUBLE_EQ(step.samples_per_second, 6. / 9);
  EXPECT_EQ(step.machines, 1);
}

TEST(Scaling, WhatBackwardCoversIsButTheLastBucket) {
  auto step = scaled(kWork, {}, kMachines, 4);
  EXPECT_NEAR(step.exposed, summing(1, 1, 4, 4 * kGigabyte), 1e-12);
  EXPECT_NEAR(scaled(kWork, {.ordered = true}, kMachines, 4).exposed, summing(256, 20, 4, 4 * kGigabyte), 1e-12);
  EXPECT_EQ(scaled(kWork, {}, kMachines, 8).machines, 2);
  EXPECT_NEAR(scaled(kWork, {}, kMachines, 8).exposed, summing(1, 1, 8, kGigabyte), 1e-12) << "the link between machines sets the pace";
}

TEST(Scaling, WhatComesAtTheEndOfBackwardIsWaitedFor) {
  auto work = kWork;
  work.late_gradient_bytes = work.gradient_bytes / 4;
  EXPECT_NEAR(scaled(work, {}, kMachines, 4).exposed, summing(79, 8, 4, 4 * kGigabyte), 1e-12) << "with the bucket that holds the first";
  EXPECT_NEAR(scaled(work, {.ordered = true}, kMachines, 4).exposed, scaled(kWork, {.ordered = true}, kMachines, 4).exposed, 1e-12);
}

TEST(Scaling, ASlowLinkIsWaitedFor) {
  auto slow = kMachines;
  slow.link = 0.1 * kGigabyte;
  auto step = scaled(kWork, {}, slow, 8);
  EXPECT_NEAR(step.exposed, 2. * 17 / 256 + summing(255, 19, 8, slow.link) - 2, 1e-9) << "from the second bucket on";
  auto divided = scaled(kWork, {.batches_per_step = 2, .zero_stage = 2}, slow, 8);
  EXPECT_GT(divided.exposed, 2 * step.exposed) << "after every backward, and the weights after the step";
}

TEST(Scaling, BlocksComeOneAheadOfTheirUse) {
  auto work = kWork;
  work.divided_bytes = int64_t{10} << 30;
  work.num_blocks = 10;
  auto fast = scaled(work, {.zero_stage = 3}, kMachines, 4).exposed - scaled(kWork, {.zero_stage = 3}, kMachines, 4).exposed;
  double block = 0.75 * static_cast<double>(1 << 30) / (4 * kGigabyte) + 3 * kStartUp;  // 0.2 s, and 0.1 and 0.2 s of computing
  EXPECT_NEAR(fast, block + 9 * (block - 0.1) + 9 * (block - 0.2), 1e-9);
}

TEST(Scaling, RowsOfAMachineSendGradientsAloneToOthers) {
  auto work = kWork;
  work.divided_bytes = int64_t{10} << 30;
  work.num_blocks = 10;
  auto exposed = [&](int64_t processes, int64_t row_size) {
    return scaled(work, {.zero_stage = 3, .row_size = row_size}, kMachines, processes).exposed;
  };
  EXPECT_NEAR(exposed(8, 4) - exposed(4, 4), 2 * (static_cast<double>(256 << 20) / 2 / kGigabyte + kStartUp), 1e-9);
  EXPECT_LT(exposed(8, 4), exposed(8, 0));
  EXPECT_EQ(exposed(4, 4), exposed(4, 0));
}

TEST(Scaling, ABatchIsSharedOut) {
  auto step = scaled(kWork, {.batch_size = 1, .global_batch_size = 8}, kMachines, 4);
  EXPECT_NEAR(step.seconds - step.exposed, 6, 1e-9);
  EXPECT_NEAR(step.samples_per_second, 8 / step.seconds, 1e-9);
}

TEST(Scaling, RatesAreBitsOrBytes) {
  EXPECT_DOUBLE_EQ(parse_rate("link", "400Gb"), 50e9);
  EXPECT_DOUBLE_EQ(parse_rate("link", "100 Mbit/s"), 12.5e6);
  EXPECT_DOUBLE_EQ(parse_rate("link", "25GB/s"), 25e9);
  for (const char* wrong : {"", "400", "fast", "-1Gb", "0Gb", "4 furlongs"}) EXPECT_THROW(parse_rate("link", wrong), Error) << wrong;
}

TEST(Scaling, TokensThatPlacesShareOutAreWaitedFor) {
  auto work = kWork;
  work.token_bytes = int64_t{1} << 30;
  work.num_exchanges = 100;
  auto shape = StepShape{.batches_per_step = 2, .num_places = 4};
  auto step = scaled(work, shape, kMachines, 8), without = scaled(kWork, shape, kMachines, 8);
  EXPECT_NEAR(step.exposed - without.exposed, 2 * (static_cast<double>(1 << 30) / (4 * kGigabyte) + 100 * 3 * kStartUp), 1e-9);
  EXPECT_DOUBLE_EQ(step.samples_per_second * step.seconds, 4) << "two groups of places, two batches of one sample";
  EXPECT_NEAR(scaled(work, shape, kMachines, 1).exposed, 0, 0);
}
