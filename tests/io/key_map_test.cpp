#include "io/key_map.h"

#include <ATen/ATen.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include "tests/scratch.h"

using namespace burnish;
using io::KeyRule;
using test::error_of;
using test::Scratch;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// One rule of each kind.
io::KeyMap rules() {
  return io::KeyMap({
      {"double_blocks.{}.img_attn.qkv.{}", {"blocks.{}.q.{}", "blocks.{}.k.{}", "blocks.{}.v.{}"}, KeyRule::Op::stack_rows},
      {"final.mod.{}", {"out.modulation.{}"}, KeyRule::Op::swap_halves},
      {"conv.{}", {"proj.{}"}, KeyRule::Op::reshape},
      {"img_in.{}", {"x_embedder.{}"}},
      {"turned", {"proj_t.weight"}, KeyRule::Op::transpose},
      {"causal.{}", {"frame.{}"}, KeyRule::Op::last_frame},
      {"flat.{}", {"table.{}"}, KeyRule::Op::stack_rows},
  });
}

io::NamedTensors ours() {
  at::manual_seed(1);
  io::NamedTensors tensors;
  for (const char* block : {"blocks.0.", "blocks.11."}) {
    for (const char* part : {"q", "k", "v"}) {
      tensors.emplace_back(block + std::string(part) + ".weight", at::randn({4, 4}));
      tensors.emplace_back(block + std::string(part) + ".bias", at::randn({4}));
    }
  }
  tensors.emplace_back("out.modulation.weight", at::randn({6, 2}));
  tensors.emplace_back("proj.weight", at::randn({3, 5}));
  tensors.emplace_back("x_embedder.weight", at::randn({2, 2}));
  tensors.emplace_back("proj_t.weight", at::randn({3, 7}));
  tensors.emplace_back("frame.weight", at::randn({2, 3, 3, 3}));
  tensors.emplace_back("table.rows", at::randn({6, 4}));
  tensors.emplace_back("same.in.both", at::randn({2}));
  return tensors;
}

io::Shapes shapes(const io::NamedTensors& tensors) {
  io::Shapes shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.sizes().vec();
  return shapes;
}

/// What load_named says about a file of `tensors`, read without rules for a model that wants `wanted`; "" when they fit.
std::string complaint(const io::NamedTensors& tensors, const io::Shapes& wanted, const io::KeyMap& keys = {}) {
  Scratch scratch;
  io::save_safetensors(scratch / "m.safetensors", tensors);
  auto source = io::TensorSource::open({scratch / "m.safetensors"});
  int placed = 0;
  auto text = error_of([&] {
    io::load_named(
        source, keys, wanted, [&](const std::string&, const io::InFile&) { ++placed; }, "the model");
  });
  EXPECT_EQ(placed, 0) << "tensors were placed before all keys were checked";
  return text;
}

}  // namespace

TEST(KeyMap, NamesOfFilesStandForOurs) {
  auto match = rules().to_ours("double_blocks.7.img_attn.qkv.weight");
  EXPECT_EQ(match.op, KeyRule::Op::stack_rows);
  EXPECT_THAT(match.ours, ElementsAre("blocks.7.q.weight", "blocks.7.k.weight", "blocks.7.v.weight"));
  EXPECT_THAT(rules().to_ours("unknown.name").ours, ElementsAre("unknown.name"));
  EXPECT_THAT(rules().to_ours("img_in.deeper.weight").ours, ElementsAre("img_in.deeper.weight")) << "{} is one segment";
}

TEST(KeyMap, WhatIsWrittenIsReadBack) {
  Scratch scratch;
  auto in_file = rules().to_file(ours());
  io::save_safetensors(scratch / "m.safetensors", in_file);
  auto source = io::TensorSource::open({scratch / "m.safetensors"});
  EXPECT_EQ(source.info("double_blocks.11.img_attn.qkv.weight").shape, (std::vector<int64_t>{12, 4}));
  EXPECT_EQ(source.info("conv.weight").shape, (std::vector<int64_t>{3, 5, 1, 1}));
  EXPECT_EQ(source.info("flat.rows").shape, (std::vector<int64_t>{24}));
  EXPECT_TRUE(source.contains("same.in.both"));
  EXPECT_FALSE(source.contains("out.modulation.weight"));

  std::map<std::string, at::Tensor> found;
  io::load_named(
      source, rules(), shapes(ours()), [&](const std::string& name, const io::InFile& read) { found[name] = read.numbers.clone(); }, "m");
  ASSERT_EQ(found.size(), ours().size());
  for (const auto& [name, expected] : ours()) EXPECT_TRUE(at::equal(found.at(name), expected)) << name;
}

TEST(KeyMap, HalvesAreSwappedInTheFile) {
  auto both = at::arange(6, at::kFloat).view({6, 1});
  auto in_file = rules().to_file({{"out.modulation.weight", both}});
  ASSERT_EQ(in_file.size(), 1u);
  EXPECT_EQ(in_file[0].first, "final.mod.weight");
  EXPECT_TRUE(at::equal(in_file[0].second.flatten(), at::tensor({3.f, 4.f, 5.f, 0.f, 1.f, 2.f})));
}

TEST(KeyMap, APartOfAStackKeepsItsName) {
  auto in_file = rules().to_file({{"blocks.0.q.weight", at::ones({4, 4})}});
  ASSERT_EQ(in_file.size(), 1u);
  EXPECT_EQ(in_file[0].first, "blocks.0.q.weight");
}

TEST(KeyMap, ShapesAreToldFromTheFile) {
  Scratch scratch;
  io::NamedTensors tensors{{"double_blocks.0.img_attn.qkv.weight", at::ones({12, 4})},
                           {"double_blocks.0.img_attn.qkv.bias", at::ones({12})},
                           {"img_in.weight", at::ones({2, 3})}};
  io::save_safetensors(scratch / "m.safetensors", tensors);
  auto found = io::shapes_in_our_names(io::TensorSource::open({scratch / "m.safetensors"}), rules());
  EXPECT_EQ(found.at("blocks.0.k.weight"), (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(found.at("blocks.0.v.bias"), (std::vector<int64_t>{4}));
  EXPECT_EQ(found.at("x_embedder.weight"), (std::vector<int64_t>{2, 3}));
}

TEST(LoadNamed, AccountsForEveryKeyInOneSentence) {
  io::NamedTensors tensors{{"right", at::ones({2})}, {"shaped", at::ones({2, 3})}};
  for (int i = 0; i < 5; ++i) tensors.emplace_back(fmt::format("extra.{}", i), at::ones({1}));
  auto text = complaint(tensors, {{"right", {2}}, {"shaped", {3, 2}}, {"absent.a", {1}}, {"absent.b", {1}}});
  EXPECT_THAT(text, AllOf(HasSubstr("the model"), HasSubstr("2 missing (absent.a, absent.b)"),
                          HasSubstr("5 unexpected (extra.0, extra.1, extra.2, ...)"),
                          HasSubstr("1 of another shape (shaped [2×3] for [3×2])"), Not(HasSubstr("right"))));
}

TEST(LoadNamed, AStackMustAddUp) {
  io::Shapes wanted{{"blocks.0.q.weight", {4, 4}}, {"blocks.0.k.weight", {4, 4}}, {"blocks.0.v.weight", {4, 4}}};
  auto file = [](at::IntArrayRef shape) { return io::NamedTensors{{"double_blocks.0.img_attn.qkv.weight", at::ones(shape)}}; };
  EXPECT_THAT(complaint(file({11, 4}), wanted, rules()), HasSubstr("1 of another shape"));
  EXPECT_THAT(complaint(file({12, 5}), wanted, rules()), HasSubstr("1 of another shape"));
  EXPECT_THAT(complaint(file({12}), wanted, rules()), HasSubstr("1 of another shape"));
  EXPECT_THAT(complaint(file({}), wanted, rules()), HasSubstr("1 of another shape"));
}

TEST(LoadNamed, AFlatTableHasAllItsNumbers) {
  EXPECT_THAT(complaint({{"flat.rows", at::ones({23})}}, {{"table.rows", {6, 4}}}, rules()), HasSubstr("1 of another shape"));
}

TEST(LoadNamed, OneOfOursGivenUnderTwoNames) {
  io::NamedTensors tensors{{"img_in.weight", at::ones({2, 2})}, {"x_embedder.weight", at::zeros({2, 2})}};
  EXPECT_THAT(complaint(tensors, {{"x_embedder.weight", {2, 2}}}, rules()),
              HasSubstr("1 given twice (x_embedder.weight for x_embedder.weight)"));
}
