// Adapters of a larger rank that add what they added, and can learn in all of it.
#include "adapters/widen.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/autograd.h>

#include <set>

#include "adapters/lokr.h"
#include "adapters/make_change.h"
#include "tests/relative_error.h"

using namespace burnish;
using namespace burnish::adapters;
using burnish::test::relative_error;

namespace {

constexpr int64_t kRows = 24, kColumns = 20;

at::Tensor drawn(at::IntArrayRef sizes) {
  static auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  return at::empty(sizes, at::kFloat).normal_(0, 1, generator);
}

AdapterWeights lora(int64_t rank) {
  return {.path = "layer",
          .kind = Kind::lora,
          .parameters = {{"lora_A.weight", drawn({rank, kColumns})}, {"lora_B.weight", drawn({kRows, rank})}},
          .scale = 0.75};
}

AdapterWeights loha(int64_t rank) {
  return {.path = "layer",
          .kind = Kind::loha,
          .parameters = {{"hada_w1_a", drawn({kRows, rank})},
                         {"hada_w1_b", drawn({rank, kColumns})},
                         {"hada_w2_a", drawn({kRows, rank})},
                         {"hada_w2_b", drawn({rank, kColumns})}},
          .scale = 0.5};
}

/// W1 [3, 2] and W2 [8, 10] of such a rank.
AdapterWeights lokr(int64_t rank, bool is_first_factored) {
  AdapterWeights w{
      .path = "layer", .kind = Kind::lokr, .parameters = {{"lokr_w2_a", drawn({8, rank})}, {"lokr_w2_b", drawn({rank, 10})}}, .scale = 0.5};
  if (is_first_factored) {
    w.parameters.emplace_back("lokr_w1_a", drawn({3, rank}));
    w.parameters.emplace_back("lokr_w1_b", drawn({rank, 2}));
  } else {
    w.parameters.emplace_back("lokr_w1", drawn({3, 2}));
  }
  return w;
}

const at::Tensor& part(const AdapterWeights& w, const std::string& name) {
  return std::ranges::find(w.parameters, name, [](const auto& p) { return p.first; })->second;
}

at::Tensor delta_of(const AdapterWeights& w) {
  nn::Linear layer(kColumns, kRows, at::TensorOptions());
  return make_change(w.kind, w.parameters, w.scale, w.fused_rows)->rows(layer.source(), 0, kRows);
}

AdapterWeights wide(const AdapterWeights& w, int64_t rank) { return widened({w}, rank, 7)[0]; }

/// Of the ranks that are new, how large the gradient of a loss is in each factor, that of the first step and that after it.
void expect_new_ranks_learn(const AdapterWeights& w, int64_t old_rank) {
  SCOPED_TRACE(kind_name(w.kind));
  nn::Linear layer(kColumns, kRows, at::TensorOptions());
  layer.weight.zero_();
  layer.bias.zero_();
  Parameters trained;
  for (const auto& [name, value] : w.parameters) trained.emplace_back(name, value.clone().requires_grad_(true));
  auto x = drawn({30, kColumns}), target = drawn({30, kRows});
  std::set<std::string> moved;
  for (int step = 0; step < 2; ++step) {
    auto y = make_update(w.kind, trained, w.scale)->forward(layer, x, x);
    std::vector<at::Tensor> values;
    for (const auto& [name, value] : trained) values.push_back(value);
    auto gradients = torch::autograd::grad({(y - target).square().mean()}, values);
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < trained.size(); ++i) {
      auto& [name, value] = trained[i];
      int64_t dim = value.size(0) == w.parameters[i].second.size(0) && name.ends_with("_a") ? 1 : name == "lora_B.weight" ? 1 : 0;
      if (name != "lokr_w1" && gradients[i].narrow(dim, old_rank, value.size(dim) - old_rank).abs().sum().item<float>() > 0)
        moved.insert(name);
      value.sub_(gradients[i], 0.1);
    }
  }
  for (const auto& [name, value] : trained) {
    EXPECT_TRUE(name == "lokr_w1" || moved.contains(name)) << name;
  }
}

}  // namespace

TEST(Widened, LoraAddsWhatItAddedAndLearnsInItsNewRanks) {
  auto before = lora(2), after = wide(before, 6);
  EXPECT_EQ(rank_of(after), 6);
  EXPECT_EQ(after.scale, before.scale) << "alpha over rank";
  EXPECT_TRUE(at::equal(part(after, "lora_A.weight").narrow(0, 0, 2), part(before, "lora_A.weight")));
  EXPECT_TRUE(at::equal(part(after, "lora_B.weight").narrow(1, 0, 2), part(before, "lora_B.weight")));
  EXPECT_FALSE(part(after, "lora_B.weight").narrow(1, 2, 4).any().item<bool>());
  auto drawn_rows = part(after, "lora_A.weight").narrow(0, 2, 4);
  const auto bound = 1 / std::sqrt(static_cast<double>(kColumns));
  EXPECT_LE(drawn_rows.abs().max().item<double>(), bound) << "Kaiming-uniform, as at a fresh start";
  EXPECT_GT(drawn_rows.abs().max().item<double>(), 0.8 * bound);
  EXPECT_LE(relative_error(delta_of(after), delta_of(before)), 1e-6);
  expect_new_ranks_learn(after, 2);
}

TEST(Widened, DoraKeepsItsMagnitudeAndBf16ItsDtype) {
  auto before = lora(2);
  before.magnitude.m = drawn({kRows});
  for (auto& [name, value] : before.parameters) value = value.to(at::kBFloat16);
  auto after = wide(before, 4);
  EXPECT_TRUE(after.magnitude.m.is_same(before.magnitude.m));
  for (const auto& [name, value] : after.parameters) EXPECT_EQ(value.scalar_type(), at::kBFloat16) << name;
}

TEST(Widened, LohaAndLokrDoToo) {
  for (const auto& before : {loha(2), lokr(2, false), lokr(2, true)}) {
    auto after = wide(before, 4);
    EXPECT_EQ(rank_of(after), 4);
    EXPECT_LE(relative_error(delta_of(after), delta_of(before)), 1e-6) << kind_name(before.kind);
    expect_new_ranks_learn(after, 2);
  }
}

TEST(Widened, LokrOfARankThatLeavesItsSecondFactorWholeIsMultipliedOut) {
  auto before = lokr(2, false), after = wide(before, kWholeLokr);
  EXPECT_EQ(rank_of(after), 0);
  EXPECT_EQ(after.scale, 1);
  EXPECT_EQ(part(after, "lokr_w2").sizes(), at::IntArrayRef({8, 10}));
  EXPECT_LE(relative_error(delta_of(after), delta_of(before)), 1e-6);
}

TEST(Widened, OtherKindsAndLargerRanksStay) {
  AdapterWeights full{.path = "layer", .kind = Kind::full, .parameters = {{"diff", drawn({kRows, kColumns})}}};
  AdapterWeights oft{.path = "layer", .kind = Kind::oft, .parameters = {{"oft_blocks", drawn({kRows, 4})}}};
  for (const auto& w : {full, oft, lora(8)}) {
    auto after = wide(w, 8);
    for (size_t i = 0; i < w.parameters.size(); ++i) EXPECT_TRUE(after.parameters[i].second.is_same(w.parameters[i].second));
  }
}

TEST(Widened, PartsOfAFusedLayerShareTheirFactorsStill) {
  auto whole = lora(2);
  std::vector<AdapterWeights> parts{whole, whole};
  parts[0].fused_rows = {0, kRows / 2};
  parts[1].fused_rows = {kRows / 2, kRows / 2};
  auto after = widened(parts, 4, 7);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(after[0].parameters[i].second.is_same(after[1].parameters[i].second));
  // Where a file has a copy for each part, copies stay equal, and others do not become so.
  auto copy = whole, other = lora(2);
  for (auto& [name, value] : copy.parameters) value = value.clone();
  auto alone = widened({whole, copy, other}, 4, 7);
  EXPECT_TRUE(at::equal(part(alone[0], "lora_A.weight"), part(alone[1], "lora_A.weight")));
  EXPECT_FALSE(at::equal(part(alone[0], "lora_A.weight").narrow(0, 2, 2), part(alone[2], "lora_A.weight").narrow(0, 2, 2)));
}

TEST(Lokr, OfALargeRankHasItsSecondFactorWholeHoweverLargeItIs) {
  struct Net : nn::Module {
    Net() : wide(2, 30000, at::TensorOptions()) { own("wide", wide); }
    nn::Linear wide;
  };
  auto names_at = [](int64_t rank) {
    Net net;
    auto adapted = attach(net, {.type = "lokr", .rank = rank, .alpha = 1, .lokr_factor = 1}, {"wide"}, 5);
    EXPECT_EQ(adapted[0].adapter->update().scale(), rank < kWholeLokr ? 1. / static_cast<double>(rank) : 1.) << "without a rank no alpha";
    std::vector<std::string> names;
    for (const auto& [name, value] : adapted[0].adapter->parameters()) names.push_back(name);
    return names;
  };
  EXPECT_THAT(names_at(8), testing::ElementsAre("lokr_w1", "lokr_w2_a", "lokr_w2_b"));
  for (int64_t rank : {10000, 100000, 1000000}) EXPECT_THAT(names_at(rank), testing::ElementsAre("lokr_w1", "lokr_w2")) << rank;
}
