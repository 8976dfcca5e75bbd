// What several processes divide among themselves (zero_stage) changes no number.
#include "tests/integration/together.h"

using namespace burnish;
using namespace burnish::test;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::UnorderedElementsAre;

namespace {

const std::string kOrdered = "--batch_size 1 --global_batch_size 4 --reduction ordered --max_steps 4 ";

class Stages : public Together {
 protected:
  /// The run by one process and by several, with all divided.
  void expect_same(const std::string& options, int64_t processes = 2, const std::string& stage = "2") const {
    SCOPED_TRACE(options + ", " + std::to_string(processes) + " processes, zero_stage " + stage);
    train(0, "one", kOrdered + options);
    train(processes, "divided", kOrdered + options + " --zero_stage " + stage);
    EXPECT_EQ(weights("divided", 4), weights("one", 4));
    expect_same_state("divided", "one");
  }
};

using StagesWith = Stages;

}  // namespace

TEST_F(Stages, AndNumbersOfProcessesWriteTheSameBits) {
  const std::string options = kOrdered + "--max_grad_norm 0.1 --ema_decay 0.9 --gradient_accumulation_steps 2 --lora_type dora ";
  train(0, "one", options);
  for (int64_t processes : {2, 4}) {
    for (const char* stage : {"1", "2"}) {
      auto run = std::to_string(processes) + "-" + stage;
      train(processes, run, options + "--zero_stage " + stage);
      EXPECT_EQ(weights(run, 4), weights("one", 4)) << run;
      expect_same_state(run, "one");
      auto lines = read_log(folder / run), expected = read_log(folder / "one");
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(lines.at(i)["grad_norm"], expected[i]["grad_norm"]) << run << " step " << i;
    }
  }
}

TEST_F(Stages, FastSumsAreThoseOfOneProcess) {
  const std::string options = "--max_grad_norm 0.1 --gradient_accumulation_steps 2 --max_steps 4 ";
  train(0, "one", options + "--batch_size 4");
  train(2, "two", options + "--batch_size 2 --zero_stage 2");
  train(4, "four", options + "--batch_size 1 --zero_stage 2");
  train(4, "four-1", options + "--batch_size 1 --zero_stage 1");
  for (const char* run : {"two", "four", "four-1"}) expect_close("one", run);
}

TEST_F(Stages, WeightsOfTheirOwnInEveryPrecision) {
  const std::string whole = "--trainable_models dit --learning_rate 1e-3 ";
  expect_same(whole + "--dtype bf16 --trained_weights remainder --save_dtype fp32 --optimizer adamw8bit --ema_decay 0.5 --overwrite");
  expect_same(whole + "--dtype bf16 --trained_weights stochastic --optimizer lion --overwrite");
  expect_same(whole + "--dtype bf16 --trained_weights fp8 --optimizer came --overwrite", 2, "1");
}

TEST_F(StagesWith, EveryOptimizer) {
  for (const char* optimizer :
       {"adafactor", "muon", "adamw_schedulefree", "prodigy --learning_rate 1", "prodigy_schedulefree --learning_rate 1"})
    expect_same("--overwrite --lora_dropout 0.2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --optimizer " +
                optimizer);
}

TEST_F(Stages, AStateInPartsGoesOnWithAnyNumberAndStage) {
  const std::string averaged = kOrdered + "--ema_decay 0.9 ";
  train(0, "one", averaged);
  train(4, "begun", averaged + "--max_steps 1 --zero_stage 2");
  EXPECT_TRUE(fs::exists(folder / "begun/state/state-step-1-00004-of-00004.safetensors"));
  train(2, "begun", averaged + "--max_steps 2 --zero_stage 1 --resume");
  EXPECT_FALSE(fs::exists(folder / "begun/state/state-step-1-00004-of-00004.safetensors")) << "parts of an older state";
  train(0, "begun", averaged + "--max_steps 3 --resume");
  EXPECT_THAT(files_below(folder / "begun/state"), UnorderedElementsAre("state.safetensors"));
  train(2, "begun", averaged + "--zero_stage 2 --resume");
  EXPECT_EQ(weights("begun", 4), weights("one", 4));
  expect_same_state("begun", "one");
}

TEST_F(Stages, AutoResumeBeginsAndGoesOn) {
  const std::string options = kOrdered + "--auto_resume --zero_stage 1 ";
  train(2, "run", options + "--max_steps 2");
  train(4, "run", options);
  train(0, "one", kOrdered);
  EXPECT_EQ(weights("run", 4), weights("one", 4));
  EXPECT_EQ(read_log(folder / "run").size(), 4u);
  expect_one_error(try_train(0, "run", options + "--overwrite"), 2, {"[train]", "overwrite replaces it"});
}

TEST_F(Stages, APartThatIsLostIsNamed) {
  const std::string options = kOrdered + "--max_steps 1 --zero_stage 1 ";
  train(2, "run", options);
  fs::remove(folder / "run/state/state-step-1-00002-of-00002.safetensors");
  auto outcome = try_train(2, "run", options + "--max_steps 2 --resume");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("state-step-1-00002-of-00002.safetensors"));
}

TEST_F(Stages, AFrozenBaseIsDividedBlockByBlock) {
  const std::string fp8 = "--fp8_models dit --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --overwrite ";
  for (const char* more : {"", "--use_gradient_checkpointing --lora_type dora", "--weight_format nf4 --gradient_accumulation_steps 2"})
    for (int64_t processes : {2, 4}) expect_same(fp8 + more, processes, "3");
  expect_same("--overwrite --ema_decay 0.9 --optimizer prodigy --learning_rate 1", 2, "3");
}

TEST_F(Stages, WeightsThatTrainAreDividedBlockByBlock) {
  const std::string whole = "--trainable_models dit --learning_rate 1e-3 --overwrite ";
  expect_same(whole + "--validation_steps 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv") +
                  " --ema_decay 0.5 --max_grad_norm 0.1 --gradient_accumulation_steps 2",
              4, "3");
}

TEST_F(StagesWith, EveryKindOfTrainedWeight) {
  const std::string whole = "--trainable_models dit --learning_rate 1e-3 --overwrite ";
  const std::string judged = "--validation_steps 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " ";
  for (int64_t processes : {2, 4}) {
    expect_same(whole + judged + "--ema_decay 0.5 --max_grad_norm 0.1 --gradient_accumulation_steps 2", processes, "3");
    expect_same(whole + "--dtype bf16 --trained_weights remainder --save_dtype fp32 --optimizer adamw8bit --use_gradient_checkpointing",
                processes, "3");
  }
  expect_same(whole + judged + "--dtype bf16 --trained_weights stochastic --optimizer lion --use_gradient_checkpointing", 2, "3");
  expect_same(whole + judged + "--dtype bf16 --trained_weights nearest --optimizer muon --ema_decay 0.5", 2, "3");
  expect_same(whole + "--dtype bf16 --trained_weights fp8 --optimizer came --use_gradient_checkpointing", 2, "3");
  expect_same(whole + "--optimizer adafactor --enable_optimizer_cpu_offload", 2, "3");
  for (const char* optimizer : {"adamw_schedulefree", "prodigy --learning_rate 1", "prodigy_schedulefree --learning_rate 1"})
    expect_same(whole + judged + "--optimizer " + optimizer, 2, "3");
}

TEST_F(Stages, SomeWeightsOfBlocksTrainAndTheOthersAreFrozen) {
  expect_same("--trainable_models dit.single_transformer_blocks --use_gradient_checkpointing --overwrite", 4, "3");
  expect_same("--trainable_models dit.transformer_blocks.0.attn,dit.proj_out,text_encoder --ema_decay 0.5 --overwrite", 2, "3");
}

TEST_F(Stages, DividedWeightsGoOnWithAnyNumberAndStage) {
  const std::string whole = kOrdered + "--trainable_models dit --dtype bf16 --ema_decay 0.9 ";
  train(0, "one", whole);
  train(4, "begun", whole + "--max_steps 1 --zero_stage 3");
  train(2, "begun", whole + "--max_steps 2 --zero_stage 2 --resume");
  train(2, "begun", whole + "--max_steps 3 --zero_stage 3 --resume");
  EXPECT_EQ(weights("begun", 3).size(), weights("one", 4).size());
  train(0, "begun", whole + "--resume");
  EXPECT_EQ(weights("begun", 4), weights("one", 4));
  expect_same_state("begun", "one");
}

TEST_F(Stages, FastSumsOfDividedWeightsAreThoseOfOneProcess) {
  const std::string options =
      "--trainable_models dit --learning_rate 1e-4 --max_grad_norm 0.1 --gradient_accumulation_steps 2 --max_steps 4 ";
  train(0, "one", options + "--batch_size 3");
  train(2, "two", options + "--batch_size 1 --global_batch_size 3 --zero_stage 3 --use_gradient_checkpointing");
  train(4, "four", options + "--batch_size 1 --global_batch_size 3 --zero_stage 3");
  expect_close("one", "two");
  expect_close("one", "four");
}

TEST_F(Stages, AreOfNeighboursInRowsThatHaveAll) {
  const std::string whole = "--trainable_models dit --learning_rate 1e-3 --overwrite ";
  const std::string judged = "--validation_steps 2 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " ";
  for (const char* stage : {"1 --shard_size 2", "2 --shard_size 2", "3 --shard_size 2"})
    expect_same(whole + judged + "--max_grad_norm 0.1 --ema_decay 0.5 --dtype bf16 --trained_weights remainder --save_dtype fp32", 4,
                stage);
  expect_same(whole + "--optimizer prodigy --learning_rate 1 --use_gradient_checkpointing", 4, "3 --shard_size 2");
  expect_same("--fp8_models dit --lora_type dora --overwrite", 4, "3 --shard_size 2");
  EXPECT_THAT(files_below(folder / "divided/state"),
              IsSupersetOf({"state-step-4-00001-of-00002.safetensors", "state-step-4-00002-of-00002.safetensors"}));
}

TEST_F(Stages, RowsAddUpToOneProcessAndGoOnAsAnother) {
  const std::string options =
      "--trainable_models dit --learning_rate 1e-4 --max_grad_norm 0.1 --gradient_accumulation_steps 2 --max_steps 4 ";
  train(0, "one", options + "--batch_size 3");
  train(4, "four", options + "--batch_size 1 --global_batch_size 3 --zero_stage 3 --shard_size 2 --max_steps 2");
  train(2, "four", options + "--batch_size 1 --global_batch_size 3 --zero_stage 2 --resume");
  expect_close("one", "four");
}

TEST_F(Stages, AllProcessesDrawThePreviewsOfDividedBlocks) {
  std::ofstream(folder / "prompts.txt") << "a red square --w 64 --h 64\na blue circle --w 64 --h 64\n";
  const std::string drawn =
      kOrdered + "--preview_steps 2 --preview_num_inference_steps 2 --preview_prompts " + quoted(folder / "prompts.txt") + " ";
  for (const char* what : {"--fp8_models dit", "--trainable_models dit --ema_decay 0.5"}) {
    SCOPED_TRACE(what);
    train(0, "one", drawn + what + " --overwrite");
    train(2, "divided", drawn + what + " --overwrite --zero_stage 3");
    EXPECT_EQ(weights("divided", 4), weights("one", 4));
    EXPECT_EQ(files_below(folder / "divided/samples").size(), 6u);
    for (const auto& name : files_below(folder / "one/samples"))
      EXPECT_EQ(read_file(folder / "divided/samples" / name), read_file(folder / "one/samples" / name)) << name;
  }
}

TEST_F(Stages, ProcessesWithFewerPartsTakePartInTheOthersBlocks) {
  const std::string options = "--batch_size 1 --global_batch_size 3 --max_steps 3 --gradient_accumulation_steps 2 ";
  train(0, "one", options);
  train(2, "two", options + "--zero_stage 3 --validation_metadata_path " + quoted(kGolden / "pictures/metadata.csv"));
  train(4, "four", options + "--zero_stage 3");
  train(2, "two-2", options + "--zero_stage 2");
  for (const char* run : {"two", "four", "two-2"}) expect_close("one", run);
}

TEST_F(Stages, WhatCannotBeDividedIsRefused) {
  auto refused = [&](const std::string& options, const std::string& word) {
    auto outcome = try_train(0, "run", options);
    expect_one_error(outcome, 2, {"[train]", word});
  };
  refused("--zero_stage 4", "zero_stage must be 0, 1, 2 or 3, not 4");
  refused("--shard_size 2", "shard_size says among how many processes zero_stage divides");
  auto uneven = try_train(4, "run", "--zero_stage 2 --shard_size 3");
  EXPECT_EQ(uneven.exit_code, 2);
  EXPECT_THAT(uneven.output, HasSubstr("shard_size 3 does not divide the 4 processes of this run"));
  refused("--zero_stage 3 --blocks_to_swap 1", "leave blocks_to_swap out");
  refused("--zero_stage 3 --preview_prompts prompts.txt --preset_lora_path preset.safetensors", "add preview_with_presets");
  refused("--zero_stage 2 --trainable_models dit --blocks_to_swap 1", "blocks_to_swap has them wait in main memory");
}

TEST_F(Stages, ArePlannedAndWhatSeveralProcessesCannotDoIsNotOffered) {
  auto plan = [](const std::string& more) {
    auto outcome = run_burnish("plan --num_threads 1 " + golden_model() + golden_data() + "--trainable_models dit --json " + more,
                               "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return nlohmann::json::parse(outcome.output.substr(outcome.output.find('{')));
  };
  auto alone = plan(""), divided = plan("--processes 4 --zero_stage 2");
  EXPECT_THAT(alone.dump(), HasSubstr("--fused_backward_pass"));
  EXPECT_THAT(divided.dump(), testing::Not(HasSubstr("--fused_backward_pass")));
  expect_one_error(run_burnish("plan --processes 0 " + golden_model() + golden_data()), 2, {"[plan]", "processes must be at least 1"});
}
