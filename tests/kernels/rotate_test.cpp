#include "kernels/rotate/rotate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/unpack/unpack.h"
#include "tests/device.h"
#include "tests/golden.h"

using namespace burnish;
using burnish::test::relative_error;

namespace {

/// The matrix as its definition says it.
at::Tensor hadamard(int64_t size) {
  const auto h4 =
      at::tensor({1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, 1.0, 1.0}, at::kDouble).view({4, 4}) / 2;
  auto matrix = h4;
  while (matrix.size(0) < size) matrix = at::kron(matrix, h4);
  return matrix;
}

at::Tensor rotated(const at::Tensor& rows, int64_t group) {
  auto copy = rows.to(test::device(), false, /*copy=*/true);
  kernels::rotate_(copy, group);
  return copy.cpu();
}

}  // namespace

TEST(Rotate, IsTheProductWithTheMatrixAndItsOwnInverse) {
  at::manual_seed(0);
  for (int64_t group : {4, 16, 64, 256, 1024}) {
    for (int64_t blocks : {1, 3}) {
      auto rows = at::randn({5, blocks * group});
      auto expected = at::matmul(rows.to(at::kDouble).view({-1, group}), hadamard(group)).view(rows.sizes());
      EXPECT_LE(relative_error(rotated(rows, group), expected), 1e-6) << group;
      EXPECT_LE(relative_error(rotated(rotated(rows, group), group), rows), 1e-6) << group;
    }
  }
  // Sums of every row are 1, unlike Sylvester's, whose first gathers a block's mean.
  EXPECT_TRUE(at::equal(rotated(at::ones({1, 64}), 64), at::ones({1, 64})));
}

TEST(Rotate, UnpackedRowsAreRotatedBackWhateverTheirLength) {
  at::manual_seed(0);
  for (auto [kind, in, group] : {std::tuple<CodeKind, int64_t, int64_t>{CodeKind::int8_convrot, 1280, 256},
                                 {CodeKind::int8_convrot, 48, 16},
                                 {CodeKind::int8_convrot, 8192, 4096},
                                 {CodeKind::int4_convrot, 2560, 64}}) {
    auto codes = at::randint(0, 256, {7, code_bytes(kind, in)}, at::kByte), scales = at::rand({7, 1});
    auto numbers = rotated(kernels::unpack(codes, kind, scales, in, in, at::kFloat), group);
    for (auto dtype : {at::kFloat, at::kBFloat16, at::kDouble}) {
      auto found = kernels::unpack(codes.to(test::device()), kind, scales.to(test::device()), in, in, dtype, group);
      EXPECT_LE(relative_error(found.cpu().to(at::kFloat), numbers.to(dtype).to(at::kFloat)), 1e-6) << in << " in " << dtype;
    }
  }
}

TEST(Rotate, Int4HasTwosComplementInBothHalves) {
  auto codes = at::tensor({0x7F, 0x98}, at::kByte).view({1, 2}), scales = at::full({1, 1}, 2.0f);
  auto row = kernels::unpack(codes, CodeKind::int4_convrot, scales, 4, 4, at::kFloat);
  EXPECT_TRUE(at::equal(row, at::tensor({14.0f, -2.0f, -14.0f, -16.0f}).view({1, 4})));
}
