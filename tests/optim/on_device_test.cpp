// What kernels for GPUs compute of trained values, beside what CPUs do (BURNISH_TEST_DEVICE=cuda).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "optim/optimizer.h"
#include "optim/rounding.h"
#include "tests/device.h"

namespace burnish::on_device_test {
using namespace burnish::optim;
using burnish::test::device;

namespace {

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cpu()) GTEST_SKIP() << "BURNISH_TEST_DEVICE names no GPU";
  }

  /// Of many sizes; a count that vectors divide and blocks of 256 do not.
  at::Tensor values_ = (at::manual_seed(0), at::randn({4288}) * at::logspace(-6, 2, 4288));
};

}  // namespace

TEST_F(OnDevice, RoundingDrawsAsOnACpu) {
  auto rounded = [&](const c10::Device& where) {
    auto from = values_.to(where, /*non_blocking=*/false, /*copy=*/true);
    auto to = at::empty({4288}, from.options().dtype(at::kBFloat16)), codes = at::empty({4288}, from.options().dtype(at::kByte));
    round_to_e4m3(from, codes, 0xFEDCBA9876543210);
    round_stochastically(from, to, 0xFEDCBA9876543210);
    return std::pair(to.cpu(), codes.cpu());
  };
  EXPECT_TRUE(at::equal(rounded(device()).first, rounded(at::kCPU).first));
  EXPECT_TRUE(at::equal(rounded(device()).second, rounded(at::kCPU).second));
}

TEST_F(OnDevice, RemaindersAreThoseOfACpu) {
  auto exact = values_.to(device());
  auto rounded = at::empty({4288}, exact.options().dtype(at::kBFloat16)), remainder = at::empty({4288}, exact.options().dtype(at::kShort));
  split_remainder(exact, rounded, remainder);
  auto on_cpu = at::empty({4288}, at::kBFloat16), remainder_on_cpu = at::empty({4288}, at::kShort);
  split_remainder(values_, on_cpu, remainder_on_cpu);
  EXPECT_TRUE(at::equal(rounded.cpu(), on_cpu));
  EXPECT_TRUE(at::equal(remainder.cpu(), remainder_on_cpu));
  auto again = at::empty_like(exact);
  join_remainder(rounded, remainder, again);
  EXPECT_TRUE(at::equal(again.cpu(), values_));
}

TEST_F(OnDevice, UpdatesAreThoseOfACpu) {
  for (const char* name : {"adamw", "adamw8bit"}) {
    auto trained = [&](const c10::Device& where) {
      auto value = values_.to(where, false, true).set_requires_grad(true);
      const auto optimizer = make_optimizer({.name = name, .weight_decay = 0.1}, {{"p", value}});
      for (int step = 0; step < 3; ++step) {
        value.mutable_grad() = (values_ * (step + 1)).sin().to(where);
        optimizer->step(0.01);
      }
      return value.detach().cpu();
    };
    EXPECT_LE((trained(device()) - trained(at::kCPU)).abs().max().item<double>(), 2e-6 * values_.abs().max().item<double>()) << name;
  }
}

}  // namespace burnish::on_device_test
