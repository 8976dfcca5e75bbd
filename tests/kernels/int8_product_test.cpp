#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>

#include "kernels/int8_product/cpu.h"

namespace burnish::kernels {

namespace {

/// Codes of all magnitudes, the first row and column of the largest: their sums are the largest that there are.
at::Tensor int8_codes(int64_t rows, int64_t columns) {
  auto codes = at::randint(-128, 128, {rows, columns}, at::kChar);
  codes.select(0, 0).fill_(-128);
  codes.select(1, 0).fill_(-128);
  return codes;
}

}  // namespace

TEST(Int8SumsCpu, AreThoseOfWholeNumbersInAnyShape) {
  if (!has_int8_sums_cpu()) GTEST_SKIP() << "this processor has neither AVX2 nor dot products, or is not to use them";
  at::manual_seed(1);
  // Sides that are no multiple of a panel's, and sums that go over several stretches of what is packed at once.
  for (const auto& [m, n, k] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                   {4, 16, 2},
                                                                   {5, 17, 3},
                                                                   {8, 16, 16},
                                                                   {9, 15, 511},
                                                                   {300, 47, 513},
                                                                   {17, 33, 1025},
                                                                   {12, 32, 2051},
                                                                   {63, 100, 1536},
                                                                   {7, 300, 31}}) {
    const auto a = int8_codes(m, k), b = int8_codes(k, n);
    const auto expected = at::matmul(a.to(at::kLong), b.to(at::kLong));
    const auto apart = at::zeros({m, k + 5}, at::kChar).narrow(1, 2, k).copy_(a);
    const auto every_other = at::zeros({k, 2 * n}, at::kChar).slice(1, 0, 2 * n, 2).copy_(b);
    for (const auto& left : {a, apart, a.t().contiguous().t()}) {
      for (const auto& right : {b, b.t().contiguous().t(), every_other}) {
        auto sums = at::full({m, n}, 77, at::kInt);
        int8_sums_cpu_(sums, left, right);
        EXPECT_TRUE(sums.to(at::kLong).equal(expected)) << m << " x " << k << " x " << n;
      }
    }
  }
}

TEST(Int8SumsCpu, OfNothingAreZero) {
  if (!has_int8_sums_cpu()) GTEST_SKIP() << "this processor has neither AVX2 nor dot products, or is not to use them";
  auto sums = at::full({3, 5}, 77, at::kInt);
  int8_sums_cpu_(sums, at::empty({3, 0}, at::kChar), at::empty({0, 5}, at::kChar));
  EXPECT_TRUE(sums.eq(0).all().item<bool>());
}

}  // namespace burnish::kernels
