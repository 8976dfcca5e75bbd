// What depends on sample and timestep alone computed ahead of training, and cuts under a budget: the same losses and the same files.
#include <gmock/gmock.h>

#include "tests/integration/families/flux2.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/families/zimage.h"
#include "tests/integration/program.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAheadLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v ";
const std::string kFour = kAheadLora + "--max_steps 4 ";
Outcome expect_ok(const std::string& arguments) {
  auto outcome = run_burnish(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << arguments << "\n" << outcome.output;
  return outcome;
}

Outcome train(const std::string& options, const fs::path& run) {
  return expect_ok("train " + golden_model() + golden_data() + options + option("output_path", run));
}

void expect_same_runs(const fs::path& a, const fs::path& b, int step = 4) {
  EXPECT_EQ(logged_steps(a), logged_steps(b));
  auto name = "step-" + std::to_string(step) + ".safetensors";
  EXPECT_EQ(read_file(a / name), read_file(b / name));
}

}  // namespace

class AheadOf : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(AheadOf, GivesTheSameLossesAndFiles) {
  Scratch folder;
  std::string options = kFour + GetParam().second + " ";
  auto live = train(options + "--precompute_timesteps off ", folder / "live");
  auto ahead = train(options + "--precompute_timesteps on ", folder / "ahead");
  EXPECT_THAT(live.output, Not(HasSubstr("computed ahead")));
  EXPECT_THAT(ahead.output, HasSubstr("computed ahead: "));
  expect_same_runs(folder / "live", folder / "ahead");
}

INSTANTIATE_TEST_SUITE_P(Trainings, AheadOf,
                         testing::Values(std::pair{"lora", ""}, std::pair{"dora", "--lora_type dora"}, std::pair{"fp8", "--fp8_models dit"},
                                         std::pair{"fp8_everywhere", "--fp8_models dit --high_precision_layers ''"},
                                         std::pair{"bf16", "--dtype bf16"}, std::pair{"checkpointing", "--use_gradient_checkpointing"},
                                         std::pair{"batches", "--batch_size 2"},
                                         std::pair{"accumulation", "--gradient_accumulation_steps 3"},
                                         std::pair{"dropout", "--lora_dropout 0.3"}, std::pair{"no_captions", "--caption_dropout 0.5"}),
                         [](const auto& info) { return std::string(info.param.first); });

TEST(Ahead, ResumedRunsComputeWhatIsLeft) {
  Scratch folder;
  train(kFour + "--precompute_timesteps off ", folder / "whole");
  train(kAheadLora + "--precompute_timesteps on --max_steps 2 ", folder / "parts");
  auto rest = train(kFour + "--precompute_timesteps on --resume ", folder / "parts");
  EXPECT_THAT(rest.output, HasSubstr("modulation of 2 visits computed ahead"));
  expect_same_runs(folder / "whole", folder / "parts");
}

TEST(Ahead, HeldOutSamplesAreJudgedTheSame) {
  Scratch folder;
  auto held_out = option("validation_metadata_path", kGolden / "pictures/metadata.csv");
  train(kFour + held_out + "--precompute_timesteps off ", folder / "live");
  train(kFour + held_out + "--precompute_timesteps on ", folder / "ahead");
  expect_same_runs(folder / "live", folder / "ahead");
  EXPECT_EQ(read_file(folder / "live/validation.json"), read_file(folder / "ahead/validation.json"));
}

TEST(Ahead, OnKeepsResultsInTheCacheFolder) {
  Scratch folder;
  auto cache = option("cache_path", folder / "cache");
  train(kFour + cache + "--precompute_timesteps off ", folder / "live");
  for (const char* run : {"first", "second"}) {
    auto outcome = train(kFour + cache + "--precompute_timesteps on ", folder / run);
    EXPECT_THAT(outcome.output, HasSubstr("in " + (folder / "cache").string() + " instead of"));
    expect_same_runs(folder / "live", folder / run);
  }
  int sections = 0;
  for (const auto& item : fs::directory_iterator(folder / "cache")) sections += item.path().filename().string().starts_with("modulate-");
  EXPECT_EQ(sections, 1);
}

TEST(Ahead, AutoTakesWhatIsSmallerAndSaysSo) {
  Scratch folder;
  auto few = train(kFour, folder / "few");
  EXPECT_THAT(few.output, HasSubstr("modulation of 4 visits computed ahead: "));
  auto many = train(kFour + "--gradient_accumulation_steps 100 ", folder / "many");
  EXPECT_THAT(many.output, HasSubstr("modulation of 400 visits computed at every visit: ahead of training it takes"));
}

TEST(Ahead, TrainedModulationStaysLive) {
  Scratch folder;
  auto whole = train("--max_steps 1 --trainable_models dit ", folder / "whole");
  EXPECT_THAT(whole.output, Not(HasSubstr("computed ahead")));
  auto lora = train("--max_steps 1 --lora_target_modules default ", folder / "lora");
  EXPECT_THAT(lora.output, Not(HasSubstr("computed ahead")));
  auto refused = run_burnish("train " + golden_model() + golden_data() + "--max_steps 1 --lora_target_modules default " +
                             "--precompute_timesteps on " + option("output_path", folder / "refused"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("finds nothing to compute ahead"));
}

TEST(Ahead, OnSaysWhichLayerIsInTheWay) {
  Scratch folder;
  const std::string lora = "--lora_rank 4 --lora_target_modules ";
  for (const auto& [model, options, said] :
       {std::tuple(qwen_image_model(), std::string("--lora_rank 4 "), "trains, transformer_blocks.0.img_mod.1 for one"),
        {qwen_image_model(), lora + "txt_mod.1 ", "trains, transformer_blocks.0.txt_mod.1 for one"},
        {qwen_image_model(), "--trainable_models dit ", "trains, "},
        {flux2_model(), lora + "single_stream_modulation.linear,to_q ", "trains, single_stream_modulation.linear for one"},
        {zimage_model(), lora + "to_q ", "no layers of this model see sample and timestep alone and are frozen"}}) {
    auto refused = run_burnish("train " + model + golden_data() + "--max_steps 1 " + options + "--precompute_timesteps on " +
                               option("output_path", folder / "refused"));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr("finds nothing to compute ahead"));
    EXPECT_THAT(refused.output, HasSubstr(said)) << model << options;
  }
}

TEST(Budget, ASmallCacheGivesTheSameLosses) {
  Scratch folder;
  train(kFour, folder / "all");
  auto outcome = train(kFour + "--cache_budget 0.00001 " + option("cache_path", folder / "cache"), folder / "some");
  EXPECT_THAT(outcome.output, HasSubstr("at every visit besides what must: "));
  EXPECT_THAT(outcome.output, Not(HasSubstr("besides what must: nothing")));
  expect_same_runs(folder / "all", folder / "some");
  uintmax_t bytes = 0;
  for (const auto& item : fs::recursive_directory_iterator(folder / "cache")) {
    if (item.path().extension() == ".safetensors") bytes += item.file_size();
  }
  EXPECT_LT(bytes, 40000u) << "10.7 kB and the shards' headers";
}

TEST(Budget, WhatCannotBeKeptIsRefused) {
  Scratch folder;
  auto outcome =
      run_burnish("train " + golden_model() + golden_data() + kFour + "--memory_budget 0.000001 " + option("output_path", folder / "run"));
  EXPECT_EQ(outcome.exit_code, 4);
  EXPECT_THAT(outcome.output, HasSubstr("no cut keeps the budget"));
  auto half = run_burnish("train --task sft:train --cache_budget 1 " + golden_model() + option("dataset_base_path", folder.path()));
  EXPECT_EQ(half.exit_code, 2);
}
