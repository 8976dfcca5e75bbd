// LongCat-Image-Edit in the whole program: beside diffusers, transformers and peft (tests/golden/make_longcat_image_edit.py), and in all
// ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/families/longcat_image.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::longcat_image_edit_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path kEdit = golden_path("longcat_image_edit_pipeline");
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v ";

fs::path picture(const std::string& name) { return fs::path(golden_path("qwen_edit_pipeline")) / name; }
std::string sized_model() { return longcat_image_model(kEdit / "model") + "--reference_pixels 16384 "; }
/// Rows of which one has no reference.
std::string mixed() { return "--dataset_metadata_path " + quoted(kEdit / "metadata.json") + " --extra_inputs edit_image "; }

void expect_drawn(const std::string& name, const std::string& options) {
  expect_latents(kEdit, name,
                 sized_model() + "--prompt 'red apple' --prompt \"tree of the north, with 'a cat' on it\" --reference " +
                     quoted(picture("a.png")) + " " + options,
                 1e-5, "--height 128 --width 128 ");
}

class LongCatImageEdit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to) {
    return run_ok("train " + sized_model() + options + " --output_path " + quoted(at(to)));
  }
};

}  // namespace

TEST(LongCatImageEditSampleParity, APictureIsChanged) { expect_drawn("latents.plain", ""); }
TEST(LongCatImageEditSampleParity, GuidanceIsLeftAsItIs) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5"); }
TEST(LongCatImageEditSampleParity, OneAtATime) { expect_drawn("latents.cfg", "--negative_prompt cat --cfg_scale 2.5 --batch_size 1"); }

TEST(LongCatImageEditReplayParity, Lora) {
  const auto how = sized_model() + mixed() + "--loss_weighting uniform --lora_checkpoint " + quoted(kEdit / "lora.safetensors");
  expect_steps(kEdit, "lora", how, 2e-6);
  expect_steps(kEdit, "lora", how + " --use_gradient_checkpointing", 2e-6);
}

TEST_F(LongCatImageEdit, GivesTheSameLossesInAllWaysOfRunning) {
  auto how = mixed() + kLora + "--max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  for (const char* other : {"kept", "ahead"}) EXPECT_EQ(logged_steps(at("live")), logged_steps(at(other))) << other;
  train(mixed() + "--task sft:data_process ", "cache");
  train(kLora + "--max_steps 6 --task sft:train --dataset_base_path " + quoted(at("cache")) + " --extra_inputs edit_image ", "split");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
}

TEST_F(LongCatImageEdit, BlocksBeforeTheFirstTrainedOneAreComputedAhead) {
  auto how = mixed() + R"(--learning_rate 1e-3 --lora_rank 4 --lora_target_modules 'single_transformer_blocks\.1\.attn\.to_[qv]' )" +
             "--max_steps 4 ";
  train(how + "--precompute_timesteps off ", "live");
  train(how + "--precompute_timesteps blocks --cache_path " + quoted(at("cache")), "ahead");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("ahead")));
}

TEST_F(LongCatImageEdit, TrainsBatchesOfPicturesOfOneSize) {
  nlohmann::json rows;
  for (int i : {0, 1})
    rows.push_back({{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()},
                    {"prompt", i == 0 ? "red apple" : "a sign that says 'tree'"},
                    {"edit_image", picture("a.png").string()}});
  auto how =
      "--dataset_metadata_path " + quoted(write("alike.json", rows.dump())) + " --extra_inputs edit_image " + kLora + "--max_steps 3 ";
  train(how + "--batch_size 2 ", "batch");
  train(how + "--gradient_accumulation_steps 2 ", "singles");
  expect_same_losses(at("batch"), at("singles"));
  EXPECT_THAT(train(mixed() + kLora + "--max_steps 2 --batch_size 2 ", "mixed"), HasSubstr("4 samples, "));
}

TEST_F(LongCatImageEdit, SeesOnePicture) {
  expect_one_error(run_burnish("sample " + sized_model() + "--prompt cat --height 128 --width 128 --reference " + quoted(picture("a.png")) +
                                   " --reference " + quoted(picture("b.png")) + " --output_path " + quoted(at("drawn")),
                               "BURNISH_LOG=error"),
                   2, {"2 reference pictures, of which LongCat-Image sees 1 at most"});
}

TEST_F(LongCatImageEdit, WithoutAPictureARunIsTold) {
  const std::string told = "was trained with reference pictures, and this run has none; name their column with --extra_inputs edit_image";
  const auto data = "--dataset_metadata_path " + quoted(kGolden / "pictures/metadata.csv") + " --height 48 --width 64 ";
  EXPECT_THAT(
      run_ok("train " + longcat_image_model(kEdit / "model") + data + kLora + "--max_steps 1 --output_path " + quoted(at("without"))),
      HasSubstr(told));
  EXPECT_THAT(train(mixed() + kLora + "--max_steps 1 ", "with"), Not(HasSubstr(told)));
}

}  // namespace burnish::longcat_image_edit_test
