#include "kernels/quantize_blocks/quantize_blocks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "kernels/quantize_rows/quantize_rows.h"
#include "kernels/unpack/unpack.h"
#include "tests/device.h"
#include "tests/golden.h"

using namespace burnish;

namespace {

at::Tensor numbers_of(const kernels::CodedBlocks& coded, CodeKind kind, int64_t in) {
  const auto group = code_block(kind).group;
  return kernels::unpack(coded.codes_NI, kind, kernels::scales_of(coded, coded.codes_NI.size(0), in / group), group, in, at::kFloat);
}

}  // namespace

TEST(QuantizedBlocks, AreThoseOfComfyKitchen) {
  const auto golden = test::golden("kernels/quantize_blocks.safetensors");
  for (const std::string name : {"odd", "one"}) {
    const auto x = golden.tensor(name + ".x").to(test::device());
    for (const auto& [kind, prefix] : {std::pair(CodeKind::mxfp8, ".mxfp8_"), {CodeKind::e2m1, ".e2m1_"}}) {
      for (auto dtype : {at::kFloat, at::kBFloat16}) {
        const auto made = kernels::quantize_blocks(x.to(dtype), kind);
        EXPECT_TRUE(at::equal(made.codes_NI.cpu(), golden.tensor(name + prefix + "codes"))) << name << prefix;
        EXPECT_TRUE(at::equal(made.scales.view(at::kByte).cpu(), golden.tensor(name + prefix + "scales"))) << name << prefix;
      }
    }
  }
}

TEST(QuantizedBlocks, AreTheNearestNumbers) {
  at::manual_seed(1);
  const auto x = at::randn({130, 96}) * at::randn({130, 96}).exp();
  // Half a step of codes in a group: of the largest 448 (or 6) a step is 32 (2), and the scale at most twice (or one E4M3 step more than)
  // needed.
  for (const auto& [kind, most] : {std::pair(CodeKind::mxfp8, 16.0 / 224), {CodeKind::e2m1, 1.0 / 6 * 1.07}}) {
    const auto blocks = [&](const at::Tensor& of) { return of.unflatten(1, {-1, code_block(kind).group}); };
    const auto found = numbers_of(kernels::quantize_blocks(x.to(test::device()), kind), kind, 96).cpu();
    const auto errors = blocks(found - x).abs().amax(2) / blocks(x).abs().amax(2);
    EXPECT_LE(errors.max().item<double>(), most);
    EXPECT_GE(errors.max().item<double>(), most / 8);
    EXPECT_TRUE(at::equal(numbers_of(kernels::quantize_blocks(found, kind), kind, 96), found) || kind == CodeKind::e2m1);
  }
}

TEST(QuantizedBlocks, ScalesComeBackFromWhereProductsReadThem) {
  for (auto [rows, groups] : {std::pair<int64_t, int64_t>(130, 5), {128, 4}, {1, 1}}) {
    const auto scales = at::randint(0, 255, {rows, groups}).to(at::kByte), laid = kernels::laid_out(scales);
    EXPECT_EQ(laid.size(0) % 128, 0);
    EXPECT_TRUE(at::equal(kernels::in_rows(laid, rows, groups), scales));
    // cuBLAS, "1D block scaling factors layout".
    const int64_t r = rows - 1, c = groups - 1, wide = laid.size(1) / 4;
    const int64_t place = ((r / 128) * wide + c / 4) * 512 + (r % 32) * 16 + (r % 128) / 32 * 4 + c % 4;
    EXPECT_EQ(laid.flatten()[place].item<int>(), scales[r][c].item<int>());
  }
}

TEST(QuantizedBlocks, AreMadeOnceWhereRowsAreShared) {
  auto x = at::randn({2, 20, 64}, at::device(test::device()));
  const kernels::SharedRows shared(x);
  auto blocks = [&](CodeKind kind) { return kernels::shared_blocks(x.flatten(0, -2), kind).codes_NI; };
  const auto first = blocks(CodeKind::mxfp8);
  EXPECT_TRUE(first.is_alias_of(blocks(CodeKind::mxfp8)));
  EXPECT_EQ(blocks(CodeKind::e2m1).size(1), 32);
}
