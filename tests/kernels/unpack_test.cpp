#include "kernels/unpack/unpack.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/device.h"

using namespace burnish;

namespace {

/// All 256 codes, eight to a row, and a scale for every four.
struct AllCodes {
  at::Tensor codes = at::arange(256, at::kByte).view({32, 8}), scales = at::rand({32, 2}).add_(1e-3);
  at::Tensor scales_of_codes() const { return scales.repeat_interleave(4, 1); }
};

}  // namespace

TEST(Unpack, EveryCodeIsWhatLibtorchTakesItFor) {
  AllCodes all;
  for (auto [kind, dtype] :
       {std::pair{CodeKind::e4m3, at::kFloat8_e4m3fn}, {CodeKind::e5m2, at::kFloat8_e5m2}, {CodeKind::int8, at::kChar}}) {
    auto values = all.codes.view(dtype).to(at::kFloat).mul_(all.scales_of_codes());
    values.masked_fill_(values.isinf(), NAN);  // no weight has either
    for (auto out : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf})
      EXPECT_TRUE(at::equal(kernels::unpack(all.codes, kind, all.scales, 4, 8, out).nan_to_num(1e4), values.to(out).nan_to_num(1e4)))
          << static_cast<int>(kind) << " in " << out;
  }
}

TEST(Unpack, EveryCodeOfALongRow) {
  const auto codes = at::arange(256, at::kByte).view({1, 256}), scales = at::full({1, 1}, 0.7f);
  for (auto [kind, dtype] :
       {std::pair{CodeKind::e4m3, at::kFloat8_e4m3fn}, {CodeKind::e5m2, at::kFloat8_e5m2}, {CodeKind::int8, at::kChar}}) {
    auto values = codes.view(dtype).to(at::kFloat) * 0.7f;
    values.masked_fill_(values.isinf(), NAN);
    const auto found = kernels::unpack(codes, kind, scales, 256, 256, at::kFloat);
    EXPECT_TRUE(at::equal(found.isnan(), values.isnan())) << static_cast<int>(kind);
    EXPECT_TRUE(at::equal(found.nan_to_num(), values.nan_to_num())) << static_cast<int>(kind);
  }
  for (auto kind : {CodeKind::nf4, CodeKind::fp4, CodeKind::e2m1, CodeKind::int4_convrot}) {
    std::vector<float> expected;
    for (size_t byte = 0; byte < 256; ++byte) {
      for (auto code : {byte >> 4, byte & 15}) expected.push_back(kernels::values_of(kind)[code] * 0.7f);
    }
    for (int64_t in : {512, 511, 505})
      EXPECT_TRUE(at::equal(kernels::unpack(codes, kind, scales, 512, in, at::kFloat)[0], at::tensor(expected).narrow(0, 0, in)))
          << static_cast<int>(kind) << " " << in;
  }
}

TEST(Unpack, Nf4HasTheFirstValueInTheHighHalf) {
  auto codes = at::tensor({0x0F, 0x7C}, at::kByte).view({1, 2}), scales = at::full({1, 1}, 2.0f);
  const auto& values = kernels::nf4_values();
  auto row = kernels::unpack(codes, CodeKind::nf4, scales, 64, 3, at::kFloat);
  EXPECT_TRUE(at::equal(row, at::tensor({2 * values[0], 2 * values[15], 2 * values[7]}).view({1, 3})));
}

TEST(Unpack, LongRowsAndOddLengths) {
  auto codes = at::randint(0, 0x7F, {3, 2501}, at::kByte), scales = at::rand({3, 1});
  auto expected = codes.view(at::kFloat8_e4m3fn).to(at::kFloat).mul_(scales).to(at::kBFloat16);
  EXPECT_TRUE(at::equal(kernels::unpack(codes, CodeKind::e4m3, scales, 2501, 2501, at::kBFloat16), expected));
}

TEST(Unpack, RowsThatKernelsForGpusTake) {
  at::manual_seed(0);
  const auto device = test::device();
  for (auto kind : {CodeKind::e4m3, CodeKind::e5m2, CodeKind::int8, CodeKind::nf4}) {
    const int64_t width = 1184, group = kind == CodeKind::nf4 ? 64 : kind == CodeKind::e4m3 ? 128 : width;
    // Codes below 0x78 are numbers in every format.
    auto codes = at::randint(0, 0x78, {5, kind == CodeKind::nf4 ? width / 2 : width}, at::kByte);
    auto scales = at::rand({5, (width + group - 1) / group}) + 0.5;
    for (auto out : {at::kFloat, at::kBFloat16}) {
      auto found = kernels::unpack(codes.to(device), kind, scales.to(device), group, width, out);
      EXPECT_TRUE(at::equal(found.cpu(), kernels::unpack(codes, kind, scales, group, width, out)))
          << static_cast<int>(kind) << " in " << out;
    }
  }
}

// Of a large weight few rows are fp32 at once; none depends on another.
TEST(Unpack, ManyRowsAreThoseOfAFew) {
  at::manual_seed(0);
  const auto device = test::device();
  const int64_t in = 4096, rows = 1100;
  const auto codes = at::randint(0, 256, {rows, in}, at::kByte), scales = at::rand({rows, 1}) + 0.5;
  for (int64_t rotation : {int64_t{0}, int64_t{256}, in}) {
    const auto kind = rotation > 0 ? CodeKind::int8_convrot : CodeKind::int8;
    const auto all = kernels::unpack(codes.to(device), kind, scales.to(device), in, in, at::kBFloat16, rotation).cpu();
    for (int64_t first : {int64_t{0}, int64_t{1000}, int64_t{1023}}) {
      auto part = [&](const at::Tensor& x) { return x.narrow(0, first, 77).to(device); };
      const auto few = kernels::unpack(part(codes), kind, part(scales), in, in, at::kBFloat16, rotation).cpu();
      EXPECT_TRUE(at::equal(all.narrow(0, first, 77), few)) << rotation << " from row " << first;
    }
  }
}
