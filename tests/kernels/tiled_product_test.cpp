#include "kernels/tiled_product/tiled_product.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "kernels/bf16_pairs.h"
#include "tests/relative_error.h"

using namespace burnish;
using namespace burnish::kernels;

namespace {

/// A weight of any codes of a kind that are numbers.
CodedMatrix some_weight(CodeKind kind, int64_t out, int64_t in, int64_t group = 0, int64_t rotation = 0) {
  const auto codes = at::randint(0, 0x38, {out, code_bytes(kind, in)}, at::kByte);
  const auto each = group > 0 ? group : in;
  return {codes, kind, at::rand({out, (in + each - 1) / each}) + 0.5, each, in, rotation};
}

at::Tensor numbers(const CodedMatrix& w) {
  return unpack(w.codes, w.kind, w.scales, w.group, w.in, at::kBFloat16, w.rotation).to(at::kDouble);
}

at::Tensor bf16(at::IntArrayRef sizes) { return at::randn(sizes).to(at::kBFloat16); }

class TiledProduct : public testing::Test {
 protected:
  void SetUp() override {
    at::manual_seed(0);
    if (!multiplies_pairs(at::ones({32, 32}, at::kBFloat16))) GTEST_SKIP() << "this processor does not multiply bf16 by itself";
  }
};

/// Expects of both products, alone and added, the numbers of the unpacked weight.
void expect_as_unpacked(const CodedMatrix& w, int64_t num_rows) {
  SCOPED_TRACE(std::string(code_block(w.kind).name) + ", rows " + std::to_string(num_rows) + ", in " + std::to_string(w.in));
  const auto exact = numbers(w), x = bf16({num_rows, w.in}), dy = bf16({num_rows, w.codes.size(0)}), bias = bf16({w.codes.size(0)});
  ASSERT_TRUE(multiplies_tiles(x, w));
  const auto y = at::empty(dy.sizes(), x.options()), dx = at::empty(x.sizes(), x.options());
  const auto forward = x.to(at::kDouble).matmul(exact.t()), back = dy.to(at::kDouble).matmul(exact);
  constexpr double kRounding = 1.0 / 256;  // half of the last bit of bf16 at most
  multiply_tiles_(y, x, w, {}, /*adds=*/false);
  EXPECT_LE(test::relative_error(y, forward), kRounding);
  multiply_tiles_(y, x, w, bias, /*adds=*/false);
  EXPECT_LE(test::relative_error(y, forward + bias.to(at::kDouble)), kRounding);
  y.copy_(dy);
  multiply_tiles_(y, x, w, {}, /*adds=*/true);
  EXPECT_LE(test::relative_error(y, forward + dy.to(at::kDouble)), kRounding);
  multiply_tiles_transposed_(dx, dy, w, /*adds=*/false);
  EXPECT_LE(test::relative_error(dx, back), kRounding);
  dx.copy_(x);
  multiply_tiles_transposed_(dx, dy, w, /*adds=*/true);
  EXPECT_LE(test::relative_error(dx, back + x.to(at::kDouble)), kRounding);
}

}  // namespace

TEST_F(TiledProduct, EqualsThatOfTheUnpackedWeight) {
  for (int i = 0; i <= static_cast<int>(kLastKind); ++i) {
    const auto kind = static_cast<CodeKind>(i);
    const auto& block = code_block(kind);
    expect_as_unpacked(some_weight(kind, 62, 1536, block.group, is_rotated(kind) ? 256 : 0), 70);
    if (block.numbers <= 2) expect_as_unpacked(some_weight(kind, 262, 288, block.group, is_rotated(kind) ? 16 : 0), 33);
  }
  expect_as_unpacked(some_weight(CodeKind::e4m3, 1100, 514), 17);  // tiles in all directions, each with a rest
  expect_as_unpacked(some_weight(CodeKind::e4m3, 64, 130), 2100);  // more rows than sums are held for
  expect_as_unpacked(some_weight(CodeKind::e4m3, 300, 1408, /*group=*/128), 40);
}

TEST_F(TiledProduct, TakesRowsThatLieApartAndScalesThatShareStorage) {
  auto w = some_weight(CodeKind::e4m3, 96, 320);
  w.scales = at::full({1, 1}, 0.25).expand({96, 1});
  const auto wide = bf16({40, 400}), x = wide.narrow(1, 30, 320), sums = at::zeros({40, 200}, x.options());
  multiply_tiles_(sums.narrow(1, 50, 96), x, w, {}, /*adds=*/false);
  EXPECT_LE(test::relative_error(sums.narrow(1, 50, 96), x.to(at::kDouble).matmul(numbers(w).t())), 1.0 / 256);
  EXPECT_EQ(sums.narrow(1, 0, 50).abs().sum().item<double>() + sums.narrow(1, 146, 54).abs().sum().item<double>(), 0);
}

TEST_F(TiledProduct, DependsOnNeitherThreadsNorTheRowsBesideIt) {
  const auto w = some_weight(CodeKind::nf4, 640, 2304, 64);
  const auto x = bf16({700, 2304}), dy = bf16({700, 640});
  const auto threads = at::get_num_threads();
  std::vector<at::Tensor> forward, back;
  for (int count : {1, 2, 7}) {
    at::set_num_threads(count);
    for (auto [first, rows] : {std::pair<int64_t, int64_t>{0, 700}, {300, 130}}) {
      forward.push_back(at::empty({rows, 640}, x.options()));
      back.push_back(at::empty({rows, 2304}, x.options()));
      multiply_tiles_(forward.back(), x.narrow(0, first, rows), w, {}, /*adds=*/false);
      multiply_tiles_transposed_(back.back(), dy.narrow(0, first, rows), w, /*adds=*/false);
    }
  }
  at::set_num_threads(threads);
  for (size_t i = 0; i < forward.size(); ++i) {
    const auto first = i % 2 == 0 ? 0 : 300, rows = i % 2 == 0 ? 700 : 130;
    EXPECT_TRUE(at::equal(forward[i], forward[0].narrow(0, first, rows))) << i;
    EXPECT_TRUE(at::equal(back[i], back[0].narrow(0, first, rows))) << i;
  }
}

TEST_F(TiledProduct, LeavesTheRestToOthers) {
  const auto w = some_weight(CodeKind::e4m3, 32, 64);
  EXPECT_FALSE(multiplies_tiles(bf16({16, 64}), w)) << "few rows";
  EXPECT_FALSE(multiplies_tiles(at::randn({32, 64}), w)) << "fp32";
  EXPECT_FALSE(multiplies_tiles(bf16({32, 63}), some_weight(CodeKind::e4m3, 32, 63))) << "no pairs";
  EXPECT_FALSE(multiplies_tiles(bf16({32, 1024}), some_weight(CodeKind::nf4, 32, 1024, 512))) << "a scale for more than a tile";
}
