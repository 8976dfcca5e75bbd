// Plans whose rehearsal goes through blocks that are alike once, beside those that go through each: the same, byte for byte.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/train/options/small_options.h"
#include "train/run/run.h"

using namespace burnish;
using namespace burnish::train;

namespace {

struct AlikeCase {
  std::string model, flags;
};
void PrintTo(const AlikeCase& c, std::ostream* out) { *out << c.model << " " << c.flags; }

/// All that a plan says, but for what the program takes by itself, which is as it is at the time.
std::string all_said_by(MemoryPlan plan) {
  plan.host.front().num_bytes = 0;
  auto json = to_json(plan);
  json["activations"] = plan.activation_bytes;
  json["multiplications"] = fmt::format("{:.0f}", plan.work.multiplications);
  return json.dump(1);
}

void is_planned_alike(const TrainOptions& options) {
  EXPECT_EQ(all_said_by(plan_memory(options, {}, Bodies::alike_once)), all_said_by(plan_memory(options, {}, Bodies::each)));
}

class AlikeBlocks : public testing::TestWithParam<AlikeCase> {};
class AlikePublished : public testing::TestWithParam<AlikeCase> {};

/// Every family under every way of training, and on one of them each option that changes what bodies of blocks do.
std::vector<AlikeCase> alike_cases() {
  std::vector<AlikeCase> all;
  for (const auto& family : test::small_families()) {
    const auto whole = "--trainable_models " + family.denoiser();
    for (const auto& trained : {std::string("--lora_rank 4"), whole}) {
      all.push_back({family.name, "--dtype bf16 --device_memory 24GiB " + trained});
      all.push_back({family.name, "--dtype bf16 --use_gradient_checkpointing --plan off " + trained});
    }
  }
  const std::string lora = " --lora_rank 4", full = " --trainable_models dit";
  for (const std::string flags :
       {"--use_gradient_checkpointing --gradient_checkpointing_interval 2", "--activation_budget 0.12MiB",
        "--use_gradient_checkpointing_offload", "--blocks_to_swap 3", "--feed_forward_chunk_size 8", "--lora_dropout 0.1",
        "--fp8_models dit", "--fp8_models dit --weight_format int8 --int8_compute", "--blank_prompt_preservation --drift_loss_weight 1",
        "--gradient_accumulation_steps 3", "--lora_type dora", "--lora_type lokr", "--batch_size 2"})
    all.push_back({"flux", "--dtype bf16 " + flags + lora});
  for (const std::string flags : {"--fused_backward_pass", "--fused_backward_pass --use_gradient_checkpointing --blocks_to_swap 3",
                                  "--trained_weights fp8", "--optimizer adafactor", "--enable_optimizer_cpu_offload"})
    all.push_back({"flux", "--dtype bf16 " + flags + full});
  return all;
}

/// Published models, whose blocks are many.
std::vector<AlikeCase> alike_published() {
  return {{"flux-dev", "--lora_rank 16 --height 512 --width 512"},
          {"flux-dev",
           "--trainable_models dit --optimizer adafactor --fused_backward_pass --use_gradient_checkpointing --blocks_to_swap 38 "
           "--height 512 --width 512"},
          {"sdxl", "--lora_rank 16 --use_gradient_checkpointing --height 512 --width 512"},
          {"sdxl", "--trainable_models unet --use_gradient_checkpointing_offload --height 512 --width 512"},
          {"wan-t2v-1.3b", "--lora_rank 16 --height 256 --width 256 --num_frames 17"}};
}

}  // namespace

TEST_P(AlikeBlocks, TakeWhatEachTakes) { is_planned_alike(test::options_of(test::small_run(GetParam().model, GetParam().flags))); }

INSTANTIATE_TEST_SUITE_P(Small, AlikeBlocks, testing::ValuesIn(alike_cases()));

TEST_P(AlikePublished, TakeWhatEachTakes) {
  std::vector<std::string> words{"--model", GetParam().model, "--max_steps", "100", "--device", "cuda", "--device_memory", "24GiB"};
  for (const auto& word : split_list(GetParam().flags, ' ')) words.push_back(word);
  auto options = test::options_of(words);
  options.model.is_plan = true;
  is_planned_alike(options);
}

INSTANTIATE_TEST_SUITE_P(Published, AlikePublished, testing::ValuesIn(alike_published()));
