// What blocks keep for backward.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "io/json.h"
#include "tests/golden.h"
#include "tests/train/options/small_options.h"
#include "train/run/run.h"

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
                                         KeptCase{"flux3-klein-base", 0.7, 4736, 3072, 38, 11}, KeptCase{"chroma", 0.7, 4608, 3072, 57, 11},
                                         KeptCase{"qwen-image", 0.7, 4608, 3072, 60, 14}, KeptCase{"z-image", 0.7, 4608, 3840, 32, 14},
                                         KeptCase{"sdxl", 0.8}));

namespace {

/// Models whose step diffusers was asked about (tests/golden/make_kept.py).
class KeptBesideDiffusers : public testing::TestWithParam<std::string> {};

}  // namespace

TEST_P(KeptBesideDiffusers, IsAtLeastFortyPercentLessWithNoProductComputedAgain) {
  const auto& model = GetParam();
  const double naive = io::read_json(test::golden_path("kept_by_diffusers.json")).at(model).get<double>();
  const bool is_unet = model.starts_with("sd");
  auto of_naive = [&](const std::string& flags) {
    const auto trained = is_unet ? "--trainable_models unet " : "--trainable_models dit ";
    return static_cast<double>(
               plan("--model " + model + " " + trained + flags + (model == "sd15" ? " --height 512 --width 512" : "")).activation_bytes) /
           naive;
  };
  const auto made_again = of_naive(""), all_kept = of_naive("--activation_budget 400GiB");
  RecordProperty("cheap_values_made_again", std::to_string(made_again));
  RecordProperty("all_values_kept", std::to_string(all_kept));
  EXPECT_LE(made_again, 0.6);
  EXPECT_GT(all_kept, made_again);
}

INSTANTIATE_TEST_SUITE_P(Of, KeptBesideDiffusers,
                         testing::Values("flux-dev", "flux2-klein-4b", "chroma", "qwen-image", "z-image", "sdxl", "sd15"));

TEST(Activations, AreAllKeptWhereThereIsRoomForThem) {
  const auto small = plan("--lora_rank 16"), large = plan("--lora_rank 16 --device_memory 140GiB"),
             between = plan("--lora_rank 16 --device_memory 48GiB");
  EXPECT_FALSE(small.kept.values) << "it is not known how much there is";
  EXPECT_TRUE(large.kept.values);
  EXPECT_FALSE(between.kept.values);
  EXPECT_EQ(between.num_bytes(), small.num_bytes());
  EXPECT_GT(large.num_bytes(), int64_t{48} << 30);
  EXPECT_FALSE(plan("--lora_rank 16 --device_memory 140GiB --plan off").kept.values);
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
    for (const auto& [name, again] : plan.kept.again) {
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
