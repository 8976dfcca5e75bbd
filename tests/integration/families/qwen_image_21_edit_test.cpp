// Qwen-Image-2.1 with reference pictures in the whole program: beside diffusers and peft (tests/golden/make_qwen_image_21_edit.py), and in
// all ways of running it.
#include <gmock/gmock.h>

#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/model_run.h"
#include "tests/integration/parity.h"
#include "tests/integration/runs.h"

namespace burnish::qwen_image_21_edit_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLoraFile = quoted(kQwenImage21 / "lora.safetensors") + " ";
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,img_mlp.proj,modulation.1 ";

std::string reference(const std::string& name) { return "--reference " + quoted(kQwenImage21Edit / name) + " "; }
const std::string kTwo = reference("a.png") + reference("b.png");

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kQwenImage21Edit, name,
      qwen_image_21_model() +
          "--reference_pixels 2048 --prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a "
          "cat on it' " +
          options,
      1e-5, kQwenImage21Size);
}

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kQwenImage21Edit, name, qwen_image_21_edit_model() + qwen_image_21_edit_data() + "--loss_weighting uniform " + options,
                     2e-6);
}

class QwenImage21Edit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to, const std::string& data = qwen_image_21_edit_data()) {
    return run_ok("train " + qwen_image_21_edit_model() + data + options + " --output_path " + quoted(at(to)));
  }
};

}  // namespace

TEST(QwenImage21EditSampleParity, OnePicture) { expect_drawn("latents.one", reference("a.png")); }
TEST(QwenImage21EditSampleParity, TwoPictures) { expect_drawn("latents.two", kTwo); }
TEST(QwenImage21EditSampleParity, TwoPicturesGuidedOneAtATime) {
  expect_drawn("latents.two_cfg", kTwo + "--negative_prompt cat --cfg_scale 2.5 --batch_size 1");
}

TEST(QwenImage21EditReplayParity, Lora) { expect_trained("lora", "--lora_checkpoint " + kLoraFile); }
TEST(QwenImage21EditReplayParity, FullCheckpointed) { expect_trained("full", "--trainable_models dit --use_gradient_checkpointing"); }

TEST_F(QwenImage21Edit, GivesTheSameLossesInAllWaysOfRunning) {
  const auto how = kLora + "--max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("kept")));
  train("--task sft:data_process ", "cache");
  train(how + "--task sft:train ", "split", "--dataset_base_path " + quoted(at("cache")) + " ");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
  const auto blocks = "--lora_rank 4 --max_steps 4 --lora_target_modules to_v ";
  train(blocks + std::string("--precompute_timesteps off "), "to_v_live");
  EXPECT_THAT(train(blocks + std::string("--precompute_timesteps on "), "to_v_ahead"), HasSubstr("dit.modulation"));
  EXPECT_EQ(logged_steps(at("to_v_live")), logged_steps(at("to_v_ahead")));
}

TEST_F(QwenImage21Edit, TrainsBatchesOfPicturesOfOneSize) {
  nlohmann::json rows;
  for (const std::string prompt : {"red apple", "tree of the north and a cat face"}) {
    auto image = (kGolden / "pictures" / (std::to_string(rows.size()) + ".png")).string();
    rows.push_back({{"image", image}, {"prompt", prompt}, {"edit_image", (kQwenImage21Edit / "a.png").string()}});
  }
  const auto data = kQwenImage21Size + "--dataset_metadata_path " + quoted(write("alike.json", rows.dump())) + " ";
  train(kLora + "--max_steps 3 --batch_size 2 ", "batch", data);
  train(kLora + "--max_steps 3 --gradient_accumulation_steps 2 ", "singles", data);
  expect_same_losses(at("batch"), at("singles"));
}

TEST_F(QwenImage21Edit, WhatIsChangedIsEncodedAnew) {
  auto cached = kLora + "--max_steps 1 --cache_path " + quoted(at("cache")) + " ";
  train(cached, "first");
  EXPECT_THAT(train(cached, "again"), HasSubstr("encode_prompt: 0 of 4 results to compute"));
  EXPECT_THAT(run_ok("train " + qwen_image_21_model() + "--extra_inputs edit_image --reference_pixels 4096 " + qwen_image_21_edit_data() +
                     cached + " --output_path " + quoted(at("larger"))),
              HasSubstr("encode_prompt: 4 of 4 results to compute"));
}

TEST_F(QwenImage21Edit, ALoraOnTheVisionTowerIsDrawnWith) {
  train("--learning_rate 1e-2 --lora_rank 4 --max_steps 2 --lora_base_model dit,image_encoder ", "run");
  EXPECT_THAT(
      run_ok("sample " + qwen_image_21_model() + "--reference_pixels 2048 --prompt cat --num_inference_steps 1 " + kQwenImage21Size +
             reference("a.png") + "--lora " + quoted(at("run/step-2.safetensors")) + " --output_path " + quoted(at("drawn"))),
      HasSubstr("layers of image_encoder"));
}

TEST_F(QwenImage21Edit, IsCountedByThePlan) {
  auto activations = [&](const std::string& model) {
    auto outcome =
        run_burnish("plan --json --num_threads 1 " + model + "--height 192 --width 192 --max_steps 10 --lora_rank 4", "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto plan = nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    for (const auto& stage : plan["stages"]) {
      if (stage["name"] == "step") return stage["peak"].value("activations", 0.0);
    }
    return 0.0;
  };
  const auto references = "--extra_inputs edit_image --reference_pixels 147456 ";  // four times the target's
  EXPECT_GT(activations(qwen_image_21_model() + references), 2 * activations(qwen_image_21_model()));
}

}  // namespace burnish::qwen_image_21_edit_test
