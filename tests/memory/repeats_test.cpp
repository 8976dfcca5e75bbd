// Bodies of blocks that are alike, gone through once, beside each that is gone through: the same books.
#include "memory/repeats.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "memory/dry_run.h"
#include "nn/recomputed_values.h"
#include "nn/unlike.h"

namespace burnish::repeats_test {

namespace {

/// Counts how often its body is gone through. Widened, it takes more than its tensors show.
struct Counted : nn::Block, nn::Unlike {
  explicit Counted(int64_t times) : times_wider(times) {
    weight = at::empty({8, 8}, at::TensorOptions(at::kFloat).device(at::kMeta)).requires_grad_(true);
    own("weight", weight);
  }
  nn::Tensors body(const nn::Tensors& in) override {
    ++num_bodies;
    auto wide = at::cat(std::vector<at::Tensor>(static_cast<size_t>(times_wider), in[0]), 0).narrow(0, 0, in[0].size(0));
    auto y = nn::recomputed(
        {wide}, [](const nn::Tensors& values) { return at::gelu(values[0]); },
        [&](const at::Tensor& activated) { return at::mm(activated, weight); });
    return {y + in[0], at::gelu(in[1])};
  }
  std::string differs_by() const override { return std::to_string(times_wider); }

  at::Tensor weight;
  int64_t times_wider, num_bodies = 0;
};

/// What a step of blocks takes. The second output of the last is read by nobody, or as the first.
struct OfStep {
  std::vector<std::tuple<int64_t, int64_t, int64_t, std::string>> books = {};
  std::vector<int64_t> num_bodies = {};
  bool is_exact = true;
};

OfStep step_of(const std::vector<int64_t>& widths, bool repeats, bool reads_both = false) {
  OfStep of;
  memory::DryRun dry(c10::Device(c10::kCPU));
  std::vector<std::unique_ptr<Counted>> blocks;
  for (auto width : widths) blocks.push_back(std::make_unique<Counted>(width));
  if (repeats) dry.repeat(memory::no_bodies());
  for (size_t i = 0; i < blocks.size(); ++i) dry.watch(*blocks[i], "block " + std::to_string(i), {{"weight", blocks[i]->weight}});
  dry.enter("forward");
  {
    nn::Tensors x(2);
    for (auto& input : x) input = at::empty({4, 8}, blocks[0]->weight.options()).requires_grad_(true);
    for (auto& block : blocks) x = block->run(x);
    auto loss = reads_both ? x[0].sum() + x[1].sum() : x[0].sum();
    x.clear();
    torch::autograd::backward({loss}, {});
  }
  for (const auto& block : blocks) of.num_bodies.push_back(block->num_bodies);
  of.is_exact = dry.is_exact();
  for (const auto& each : dry.allocations())
    of.books.emplace_back(each.num_bytes, each.taken, std::min(each.freed, dry.now()), std::string(each.place));
  return of;
}

}  // namespace

TEST(Repeats, WriteTheBooksThatEachBodyWrites) {
  const auto each = step_of({1, 1, 1, 1, 1, 1}, false, true), once = step_of({1, 1, 1, 1, 1, 1}, true, true);
  EXPECT_TRUE(once.is_exact);
  EXPECT_EQ(each.num_bodies, (std::vector<int64_t>{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(once.books, each.books);
  EXPECT_GT(std::ranges::count(once.num_bodies, 0), 0) << "what the others take is known by then";
}

TEST(Repeats, LetGoOfWhatLeadsToAnOutputThatNobodyReads) {
  const auto each = step_of({1, 1, 1, 1, 1, 1}, false), once = step_of({1, 1, 1, 1, 1, 1}, true);
  EXPECT_TRUE(once.is_exact);
  EXPECT_EQ(once.books, each.books);
}

TEST(Repeats, TellBlocksApartThatSayThatTheyDiffer) {
  const auto each = step_of({1, 3, 1, 3}, false), once = step_of({1, 3, 1, 3}, true);
  EXPECT_TRUE(once.is_exact);
  EXPECT_EQ(once.books, each.books);
}

TEST(Repeats, RefuseABlockThatTrainsAndRunsTwice) {
  memory::DryRun dry(c10::Device(c10::kCPU));
  Counted block(1);
  dry.repeat(memory::no_bodies());
  dry.watch(block, "block", {{"weight", block.weight}});
  dry.enter("forward");
  nn::Tensors x(2, at::empty({4, 8}, block.weight.options()));
  x = block.run(x);
  EXPECT_THROW(block.run(x), memory::NotRepeatable);
  EXPECT_FALSE(dry.is_exact());
}

}  // namespace burnish::repeats_test
