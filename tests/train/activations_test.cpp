// What blocks keep for backward.
#include <gmock/gmock.h>

#include "tests/train/small_run.h"

using namespace burnish;

namespace {

constexpr double kGiB = 0x1p30;

/// A step at 1024x1024, of FLUX.1 where `flags` name no model.
train::MemoryPlan plan(const std::string& flags) {
  auto words = split_list("--dtype bf16 --height 1024 --width 1024 --device cuda --max_steps 100 " + flags, ' ');
  if (flags.find("--model ") == flags.npos) words.insert(words.end(), {"--model", "flux-dev"});
  auto options = test::options_of({words.begin(), words.end()});
  options.model.is_plan = true;
  return train::plan_memory(options);
}

double gib(int64_t num_bytes) { return static_cast<double>(num_bytes) / kGiB; }

/// GiB of activations at its peak.
double activations(const std::string& flags) { return gib(plan(flags).step().profile.peak[memory::Kind::activations]); }

}  // namespace

namespace {

/// A published model whose blocks keep little more than their products read.
struct KeptCase {
  std::string model;
  double most;                                    ///< of what autograd keeps of the same step
  int64_t tokens = 0, width = 0, num_blocks = 0;  ///< of a transformer
  double most_of_block = 0;                       ///< times tokens x width, on the average
};
void PrintTo(const KeptCase& c, std::ostream* out) { *out << c.model; }

class KeptActivations : public testing::TestWithParam<KeptCase> {};

}  // namespace

TEST_P(KeptActivations, AreThoseOfProducts) {
  const auto& c = GetParam();
  const std::string step = "--model " + c.model + " --lora_rank 16 ";
  const auto kept = activations(step), all = activations(step + "--activation_budget 400GiB");
  RecordProperty("of_what_autograd_keeps", std::to_string(kept / all));
  EXPECT_LE(kept, c.most * all);
  if (c.num_blocks == 0) return;
  const auto of_block = kept * kGiB / static_cast<double>(c.num_blocks * c.tokens * c.width * 2);
  RecordProperty("times_tokens_by_width", std::to_string(of_block));
  EXPECT_LE(of_block, c.most_of_block);
}

INSTANTIATE_TEST_SUITE_P(Of, KeptActivations,
                         testing::Values(KeptCase{"flux-dev", 0.7, 4608, 3072, 57, 11}, KeptCase{"flux2-klein-4b", 0.7, 4608, 3072, 25, 14},
                                         KeptCase{"chroma", 0.7, 4608, 3072, 57, 11}, KeptCase{"qwen-image", 0.7, 4608, 3072, 60, 14},
                                         KeptCase{"sdxl", 0.8}));

// What autograd keeps of the same blocks written out: of a double block 18 and of a single one 17 times the tokens' 4608 x 3072 bf16
// numbers, inputs of a norm, a product, an activation or an attention counted once each.
constexpr double kNaive = (19 * 18 + 38 * 17) * (4608.0 * 3072 * 2) / kGiB;

TEST(Activations, AreAtLeastFortyPercentFewerThanAutogradKeeps) {
  const std::string blocks_alone =
      "--lora_rank 16 --lora_target_modules to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,"
      "ff.net.0.proj,ff.net.2,ff_context.net.0.proj,ff_context.net.2,proj_mlp,proj_out --precompute_timesteps on";
  EXPECT_LE(activations(blocks_alone), 0.6 * kNaive);
}

TEST(Activations, AreAllKeptWhereThereIsRoomForThem) {
  const auto small = plan("--lora_rank 16"), large = plan("--lora_rank 16 --device_memory 140GiB"),
             between = plan("--lora_rank 16 --device_memory 48GiB");
  EXPECT_FALSE(small.keeps_values) << "it is not known how much there is";
  EXPECT_TRUE(large.keeps_values);
  EXPECT_FALSE(between.keeps_values);
  EXPECT_EQ(between.num_bytes(), small.num_bytes());
  EXPECT_GT(large.num_bytes(), int64_t{48} << 30);
  EXPECT_FALSE(plan("--lora_rank 16 --device_memory 140GiB --plan off").keeps_values);
}

TEST(Activations, StayWithinABudgetAndFillIt) {
  double before = 0;
  for (double budget : {3.0, 8.0, 14.0, 20.0}) {
    const auto within = plan("--lora_rank 16 --activation_budget " + std::to_string(budget) + "GiB");
    EXPECT_LE(gib(within.activation_bytes), budget);
    EXPECT_GE(gib(within.activation_bytes), budget - 0.5) << "less than what one block more would keep";
    EXPECT_LE(gib(within.step().profile.peak[memory::Kind::activations]), budget);
    EXPECT_GT(gib(within.num_bytes()), before);
    before = gib(within.num_bytes());
  }
  const auto whole = plan("--lora_rank 16 --activation_budget 100GiB");
  EXPECT_EQ(whole.activation_bytes, plan("--lora_rank 16 --device_memory 140GiB").activation_bytes);
}

TEST(Activations, WithinABudgetAreFirstThoseThatAreCheapToComputeAgain) {
  auto count = [](const train::MemoryPlan& plan) {
    size_t num_blocks = 0, num_values = 0;
    for (const auto& [name, again] : plan.again) {
      num_blocks += again.whole ? 1 : 0;
      num_values += again.values->size();
    }
    return std::pair(num_blocks, num_values);
  };
  const auto with_values = count(plan("--lora_rank 16 --activation_budget 20GiB"));
  EXPECT_EQ(with_values.first, 0u);
  EXPECT_GT(with_values.second, 0u);
  EXPECT_GT(count(plan("--lora_rank 16 --activation_budget 8GiB")).first, 10u);
}
