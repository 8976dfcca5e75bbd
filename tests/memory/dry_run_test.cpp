#include "memory/dry_run.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>

#include "kernels/shapes_only.h"
#include "kernels/unpack/unpack.h"
#include "nn/recomputed_values.h"

namespace burnish::dry_run_test {

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
    kernels::ShapesOnly shapes_only;
    auto shape = at::empty({10}, options);
    EXPECT_FALSE(dry.number_of(shape));
  }
  at::empty({10}, options);
  EXPECT_EQ(dry.allocations().size(), 1u);
}

// A weight in codes that is made bf16 for a GPU by way of fp32 is so a part at a time.
TEST(DryRun, UnpackedWeightsAreNeverWholeInFp32) {
  memory::DryRun dry(c10::Device(c10::kCUDA));
  const int64_t out = 4096, in = 16384;
  const auto codes = at::empty({out, in}, at::TensorOptions(at::kByte).device(at::kMeta)),
             scales = at::empty({out, 1}, at::TensorOptions(at::kFloat).device(at::kMeta));
  for (const auto& [kind, rotation] : {std::pair(CodeKind::int8, 0), {CodeKind::int8_convrot, 256}, {CodeKind::e4m3, 0}}) {
    const auto begin = dry.now();
    kernels::unpack(codes, kind, scales, in, in, at::kBFloat16, rotation);
    const auto weight = out * in;
    EXPECT_LT(memory::profile(dry.allocations(), begin, dry.now(), 1).peak.total(), weight + 2 * weight + weight / 2)
        << static_cast<int>(kind) << ": codes, bf16, and of the rest a part";
  }
}

namespace {

/// A product whose input is an activation, which trains.
struct Product : nn::Block {
  explicit Product(const at::TensorOptions& options) : weight(at::empty({8, 16}, options).requires_grad_(true)) {}
  nn::Tensors body(const nn::Tensors& in) override {
    return {nn::recomputed(
        {in[0]}, [](const nn::Tensors& values) { return at::gelu(values[0]); },
        [&](const at::Tensor& activated) { return at::mm(activated, weight); })};
  }
  at::Tensor weight;
};

}  // namespace

TEST(DryRun, TracesBlocksAndTheValuesInThem) {
  memory::DryRun dry(c10::Device(c10::kCPU));
  auto options = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  Product block(options);
  auto x = at::empty({4, 8}, options).requires_grad_(true);
  dry.watch(block, "product");
  block.run({x});
  EXPECT_TRUE(dry.parts().empty());
  dry.trace();
  auto y = block.run({x})[0];
  ASSERT_EQ(dry.parts().size(), 2u);
  const auto &value = dry.parts()[0], &whole = dry.parts()[1];
  EXPECT_EQ(whole.block, "product");
  EXPECT_EQ(value.block, "product");
  EXPECT_EQ(value.call, 0u);
  EXPECT_FALSE(whole.call);
  EXPECT_EQ(whole.multiplications, 4 * 8 * 16);
  EXPECT_EQ(value.multiplications, 0);
  EXPECT_EQ(whole.outputs, std::set<size_t>{*dry.number_of(y)});
  EXPECT_EQ(whole.inputs, std::set<size_t>{*dry.number_of(x)});
  EXPECT_EQ(value.inputs, whole.inputs);
  ASSERT_EQ(value.end - value.first, 1u);
  EXPECT_EQ(dry.allocations()[value.first].num_bytes, 4 * 8 * 4);
  EXPECT_GT(dry.allocations()[value.first].freed, dry.now()) << "it is kept while it is traced";
}

}  // namespace burnish::dry_run_test
