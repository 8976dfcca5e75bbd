// The best choice of what to compute again, beside all choices.
#include "memory/knapsack.h"

#include <gmock/gmock.h>

#include <functional>
#include <limits>
#include <random>

namespace burnish::knapsack_test {
using namespace burnish::memory;

namespace {

Saving saving_of(const std::vector<Choices>& blocks, const std::vector<Chosen>& chosen) {
  Saving sum;
  auto add = [&](const Saving& saving) { sum = {sum.num_bytes + saving.num_bytes, sum.work + saving.work}; };
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (chosen[i].whole) add(blocks[i].whole);
    for (size_t j = 0; j < blocks[i].values.size(); ++j) {
      if (chosen[i].values[j]) add(blocks[i].values[j]);
    }
  }
  return sum;
}

/// Every way to compute blocks again, from the block `i` on, added to `chosen`.
void for_all(const std::vector<Choices>& blocks, std::vector<Chosen>& chosen, const std::function<void()>& visit) {
  const auto i = chosen.size();
  if (i == blocks.size()) return visit();
  const auto num_values = blocks[i].values.size();
  for (uint32_t bits = 0; bits <= 1u << num_values; ++bits) {
    Chosen& of = chosen.emplace_back();
    of.whole = bits == 1u << num_values;
    for (size_t j = 0; j < num_values; ++j) of.values.push_back(!of.whole && (bits >> j & 1) != 0);
    for_all(blocks, chosen, visit);
    chosen.pop_back();
  }
}

}  // namespace

TEST(Knapsack, IsTheBestOfAllChoices) {
  std::mt19937 random(3);
  auto below = [&](uint32_t limit) { return static_cast<int64_t>(random() % limit); };
  int num_possible = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<Choices> blocks(static_cast<size_t>(1 + below(4)));
    int64_t most = 0;
    for (auto& block : blocks) {
      block.values.resize(static_cast<size_t>(below(4)));
      for (auto& value : block.values) value = {below(100), static_cast<double>(below(20))};
      block.whole = {below(400), static_cast<double>(below(80))};
      most += block.whole.num_bytes;
    }
    const auto num_bytes = below(static_cast<uint32_t>(most) + 2);
    double best = std::numeric_limits<double>::infinity();
    std::vector<Chosen> all;
    for_all(blocks, all, [&] {
      auto saving = saving_of(blocks, all);
      if (saving.num_bytes >= num_bytes) best = std::min(best, saving.work);
    });
    const auto chosen = save_at_least(num_bytes, blocks);
    ASSERT_EQ(chosen.has_value(), best < std::numeric_limits<double>::infinity());
    if (!chosen) continue;
    ++num_possible;
    EXPECT_GE(saving_of(blocks, *chosen).num_bytes, num_bytes);
    EXPECT_EQ(saving_of(blocks, *chosen).work, best);
  }
  EXPECT_GT(num_possible, 50);
}

TEST(Knapsack, SavesEnoughOfManyGibibytes) {
  std::vector<Choices> blocks;
  int64_t most = 0;
  for (int i = 0; i < 57; ++i) {
    Choices block{.whole = {int64_t{250} << 20 | i % 3, 100}, .values = {}};
    for (int j = 0; j < 5; ++j) block.values.push_back({int64_t{20 + j} << 20, 1.0 + j % 2});
    most += block.whole.num_bytes;
    blocks.push_back(block);
  }
  for (auto num_bytes : {most / 10, most / 2, most * 99 / 100}) {
    const auto chosen = save_at_least(num_bytes, blocks);
    ASSERT_TRUE(chosen);
    auto saved = saving_of(blocks, *chosen).num_bytes;
    EXPECT_GE(saved, num_bytes);
    EXPECT_LE(saved, num_bytes + (int64_t{260} << 20)) << "more than what a block less would leave";
  }
  EXPECT_FALSE(save_at_least(most + (int64_t{1} << 20), blocks));
}

TEST(Knapsack, ChoosesNothingWhereNothingHasToGo) {
  for (auto num_bytes : {int64_t{0}, int64_t{-5}}) {
    const auto chosen = save_at_least(num_bytes, {{.whole = {10, 1}, .values = {{5, 0}}}});
    ASSERT_TRUE(chosen);
    EXPECT_FALSE((*chosen)[0].whole);
    EXPECT_FALSE((*chosen)[0].values[0]);
  }
}

}  // namespace burnish::knapsack_test
