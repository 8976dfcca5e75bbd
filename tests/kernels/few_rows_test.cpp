#include "kernels/unpack/few_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/unpack/unpack.h"
#include "tests/relative_error.h"

using namespace burnish;

namespace {

/// A weight [37, in] of any codes that are numbers, with a scale for so many neighbours.
struct Weight {
  Weight(CodeKind kind, int64_t in, int64_t group) : kind(kind), in(in), group(group) {
    const auto numbers = code_block(kind).numbers;
    codes = at::randint(0, 0x78, {37, (in + numbers - 1) / numbers}, at::kByte);
    scales = at::rand({37, (in + group - 1) / group}) + 0.5;
  }
  at::Tensor product(const at::Tensor& x) const { return kernels::multiply_few(x, codes, kind, scales, group); }
  at::Tensor expected(const at::Tensor& x) const {
    return x.to(at::kDouble).matmul(kernels::unpack(codes, kind, scales, group, in, at::kDouble).t());
  }
  CodeKind kind;
  int64_t in, group;
  at::Tensor codes, scales;
};

}  // namespace

TEST(FewRows, EqualTheProductWithTheUnpackedWeight) {
  at::manual_seed(0);
  for (auto kind : {CodeKind::int8, CodeKind::e4m3, CodeKind::e5m2, CodeKind::nf4, CodeKind::fp4, CodeKind::e2m1}) {
    for (auto [in, group] : {std::pair<int64_t, int64_t>{2501, 2501}, {1184, 64}, {48, 16}, {1, 1}}) {
      const Weight weight(kind, in, group);
      for (int64_t num_rows : {1, 3, 16}) {
        const auto x = at::randn({num_rows, in});
        EXPECT_LT(test::relative_error(weight.product(x), weight.expected(x)), 1e-6)
            << static_cast<int>(kind) << " " << num_rows << " by " << in << " in groups of " << group;
      }
    }
  }
}

TEST(FewRows, ARowDependsOnNoneBesideIt) {
  const Weight weight(CodeKind::nf4, 1100, 64);
  const auto x = at::randn({7, 1100}), all = weight.product(x);
  for (int64_t row = 0; row < 7; ++row) EXPECT_TRUE(at::equal(all.narrow(0, row, 1), weight.product(x.narrow(0, row, 1))));
}

TEST(FewRows, AreSixteenAtMostOfNumbersAsWideAsFp32) {
  const Weight weight(CodeKind::int8, 8, 8);
  EXPECT_TRUE(kernels::multiplies_few(at::ones({4, 4, 8}, at::kBFloat16), weight.codes, weight.kind));
  EXPECT_FALSE(kernels::multiplies_few(at::ones({17, 8}), weight.codes, weight.kind));
  EXPECT_FALSE(kernels::multiplies_few(at::ones({1, 8}, at::kDouble), weight.codes, weight.kind));
  EXPECT_FALSE(kernels::multiplies_few(at::ones({1, 32}), weight.codes, CodeKind::q4_0)) << "its scales lie in its codes";
}
