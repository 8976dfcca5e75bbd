// Kandinsky 5 I2I Lite in the whole program: beside diffusers, transformers and peft (tests/golden/make_kandinsky5_edit.py), and in all
// ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/families/kandinsky5.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::kandinsky5_edit_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kEdit = golden_path("kandinsky5_edit_pipeline");
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_query,to_value ";

std::string edit_model() { return kandinsky5_model(kEdit / "model"); }
std::string picture(int i) { return quoted(kGolden / "pictures" / (std::to_string(i) + ".png")); }
std::string rows() { return "--dataset_metadata_path " + quoted(kEdit / "metadata.json") + " --extra_inputs edit_image "; }

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kEdit, name,
                 edit_model() +
                     "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
                     "--reference " + picture(2) + " " + options,
                 1e-5);
}

class Kandinsky5Edit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to) {
    return run_ok("train " + edit_model() + options + " --output_path " + quoted(at(to)));
  }
};

}  // namespace

TEST(Kandinsky5EditSampleParity, APictureIsChanged) { expect_drawn("latents.plain", ""); }
TEST(Kandinsky5EditSampleParity, Guidance) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(Kandinsky5EditSampleParity, GuidanceFromTheEmptyPrompt) { expect_drawn("latents.cfg_empty", "--cfg_scale 2.5 --batch_size 1"); }

TEST(Kandinsky5EditReplayParity, Lora) {
  const auto how = edit_model() + rows() + "--loss_weighting uniform --lora_checkpoint " + quoted(kEdit / "lora.safetensors");
  expect_steps(kEdit, "lora", how, 2e-6);
  expect_steps(kEdit, "lora", how + " --use_gradient_checkpointing", 2e-6);
}

TEST_F(Kandinsky5Edit, GivesTheSameLossesInAllWaysOfRunning) {
  const auto how = rows() + kLora + "--max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  for (const char* other : {"kept", "ahead"}) EXPECT_EQ(logged_steps(at("live")), logged_steps(at(other))) << other;
  train(rows() + "--task sft:data_process ", "cache");
  train(kLora + "--max_steps 6 --task sft:train --dataset_base_path " + quoted(at("cache")) + " --extra_inputs edit_image ", "split");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
}

TEST_F(Kandinsky5Edit, BlocksBeforeTheFirstTrainedOneAreComputedAhead) {
  const auto how =
      rows() + R"(--learning_rate 1e-3 --lora_rank 4 --lora_target_modules 'visual_transformer_blocks\.2\..*to_query' )" + "--max_steps 4 ";
  train(how + "--precompute_timesteps off ", "live");
  train(how + "--precompute_timesteps blocks --cache_path " + quoted(at("cache")), "ahead");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("ahead")));
}

TEST_F(Kandinsky5Edit, TrainsBatchesAndGoesOnFromAStop) {
  auto two = nlohmann::json::parse(read_file(kEdit / "metadata.json"));
  two.erase(two.begin() + 2, two.end());
  const auto alike = "--dataset_metadata_path " + quoted(write("two.json", two.dump())) + " --dataset_base_path " + quoted(kEdit) +
                     " --extra_inputs edit_image " + kLora + "--max_steps 3 ";
  train(alike + "--batch_size 2 ", "batch");
  train(alike + "--gradient_accumulation_steps 2 ", "singles");
  expect_same_losses(at("batch"), at("singles"));
  train(rows() + kLora + "--max_steps 2 ", "stopped");
  train(rows() + kLora + "--max_steps 4 --resume ", "stopped");
  train(rows() + kLora + "--max_steps 4 ", "whole");
  EXPECT_TRUE(read_file(at("stopped") / "step-4.safetensors") == read_file(at("whole") / "step-4.safetensors"));
}

TEST_F(Kandinsky5Edit, ARowHasNoneOrOneOfItsSize) {
  auto trained_on = [&](const std::string& to, const std::vector<nlohmann::json>& given) {
    nlohmann::json rows;
    for (const auto& one : given)
      rows.push_back({{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "red apple"}, {"edit_image", one}});
    return "train " + edit_model() + "--dataset_metadata_path " + quoted(write(to + ".json", rows.dump())) + " --extra_inputs edit_image " +
           kLora + "--max_steps 4 --output_path " + quoted(at(to));
  };
  const auto same = (kGolden / "pictures/1.png").string(), other = (fs::path(golden_path("qwen_edit_pipeline")) / "b.png").string();
  EXPECT_THAT(run_ok(trained_on("mixed", {"", same})), Not(HasSubstr("was trained with reference pictures")));
  auto refused = [&](const std::string& to, const nlohmann::json& given, const std::string& words) {
    expect_one_error(run_burnish(trained_on(to, {given}), "BURNISH_LOG=error"), 3, {words});
  };
  refused("two", {same, same}, "2 reference pictures, of which Kandinsky 5 I2I Lite sees 1 at most");
  refused("larger", other, "scale it to the picture's size");
}

TEST_F(Kandinsky5Edit, WhatIsGivenIsCutAsWhatIsDrawn) {
  const auto how = "sample " + edit_model() + "--prompt cat --height 32 --width 48 --num_inference_steps 1 --reference ";
  run_ok(how + quoted(fs::path(golden_path("qwen_edit_pipeline")) / "b.png") + " --output_path " + quoted(at("drawn")));
  EXPECT_FALSE(fs::is_empty(at("drawn")));
}

TEST_F(Kandinsky5Edit, ModelsAndRunsBelongTogether) {
  const auto plain =
      "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --height 48 --width 64 --max_steps 1 " + kLora;
  EXPECT_THAT(train(plain, "without"), HasSubstr("was trained with reference pictures, and this run has none; name their column with "
                                                 "--extra_inputs edit_image"));
  expect_one_error(run_burnish("train " + kandinsky5_model() + rows() + kLora + "--max_steps 1 --output_path " + quoted(at("other")),
                               "BURNISH_LOG=error"),
                   2, {"reads no picture, as of Kandinsky-5.0-I2I-Lite"});
}

}  // namespace burnish::kandinsky5_edit_test
