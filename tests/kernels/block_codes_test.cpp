// Codes of blocks beside at::bucketize and at::index_select.
#include "kernels/block_codes/block_codes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace burnish;

namespace {

/// A few values of either sign over six orders of magnitude.
std::vector<float> table() {
  std::vector<float> values{-1, 0, 1};
  for (float x = 3e-7F; x < 0.99F; x *= 1.13F) {
    values.push_back(x);
    values.push_back(-x);
  }
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

TEST(BlockCodes, AreThoseOfBucketize) {
  constexpr int64_t kBlock = 256, kCount = 100 * kBlock + 37;
  const auto values = table();
  ASSERT_LE(values.size(), 256u);
  const kernels::BlockCodes block_codes(values, kBlock);
  at::manual_seed(4);
  auto exact = at::randn({kCount}) * at::exp(6 * at::randn({kCount}));
  exact.narrow(0, 0, kBlock).zero_();
  exact.narrow(0, kBlock, 8).fill_(-0.0F);
  auto codes = at::zeros({kCount}, at::kByte), scales = at::zeros({101});
  block_codes.encode(exact, codes, scales);

  const auto table = at::tensor(values);
  const auto borders = (table.slice(0, 0, -1) + table.slice(0, 1)) / 2;
  const auto blocks = at::constant_pad_nd(exact, {0, 101 * kBlock - kCount}).view({101, kBlock});
  const auto most = blocks.abs().amax(1);
  EXPECT_TRUE(at::equal(scales, most));
  const auto fractions = (blocks * most.clamp_min(1e-38).reciprocal().unsqueeze(1)).view(-1).narrow(0, 0, kCount);
  EXPECT_TRUE(at::equal(codes, at::bucketize(fractions, borders).to(at::kByte)));

  const auto expected = (table.index_select(0, codes.to(at::kInt)) * scales.repeat_interleave(kBlock).narrow(0, 0, kCount));
  EXPECT_TRUE(at::equal(block_codes.decode(codes, scales), expected));
}

TEST(BlockCodes, OfBordersAndOfWhatIsNoNumber) {
  const auto values = table();
  const kernels::BlockCodes block_codes(values, 1024);
  const auto table = at::tensor(values);
  const auto borders = (table.slice(0, 0, -1) + table.slice(0, 1)) / 2;
  auto exact = at::cat({borders, at::tensor({1.0F}), at::nextafter(borders, at::full_like(borders, 2.0F))});
  auto codes = at::zeros({exact.numel()}, at::kByte), scales = at::zeros({1});
  block_codes.encode(exact, codes, scales);
  EXPECT_TRUE(at::equal(codes, at::bucketize(exact, borders).to(at::kByte)));
  exact[5] = std::numeric_limits<float>::quiet_NaN();
  block_codes.encode(exact, codes, scales);
  EXPECT_TRUE(std::isnan(scales.item<float>())) << "a run that goes wrong shows it";
}
