// Krea 2's edit forms in the whole program: beside their forward over diffusers' modules (tests/golden/make_krea2_edit.py), and in all ways
// of running them.
#include <gmock/gmock.h>

#include "tests/integration/families/krea2.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::krea2_edit_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kLoraFile = quoted(kKrea2 / "lora.safetensors") + " ";
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_gate,time_mod_proj ";
const std::string kOverlaid = "--reference_form overlaid ";

std::string reference(const std::string& name) { return "--reference " + quoted(kKrea2Edit / name) + " "; }
const std::string kTwo = reference("a.png") + reference("b.png");

/// Without the option that only reading data needs.
std::string drawing_model() {
  return krea2_model() + "--tokenizer_path " + quoted(kKrea2Edit / "tokenizer") + " --processor_path " + quoted(kKrea2Edit / "processor") +
         " ";
}

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kKrea2Edit, name,
      drawing_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5);
}

void expect_trained(const std::string& name, const std::string& data, const std::string& options) {
  test::expect_steps(kKrea2Edit, name, krea2_edit_model() + krea2_edit_data(data) + "--loss_weighting uniform " + options, 2e-6);
}

class Krea2Edit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to, const std::string& data = krea2_edit_data()) {
    return run_ok("train " + krea2_edit_model() + data + options + " --output_path " + quoted(at(to)));
  }
};

}  // namespace

TEST(Krea2EditSampleParity, OnePicture) { expect_drawn("latents.one", reference("a.png")); }
TEST(Krea2EditSampleParity, TwoPictures) { expect_drawn("latents.two", kTwo); }
TEST(Krea2EditSampleParity, TwoPicturesGuidedOneAtATime) {
  expect_drawn("latents.two_cfg", kTwo + "--negative_prompt cat --cfg_scale 2.5 --batch_size 1");
}
TEST(Krea2EditSampleParity, APictureOfOtherSides) { expect_drawn("latents.scaled", reference("c.png")); }
TEST(Krea2EditSampleParity, Overlaid) { expect_drawn("latents.overlaid", kOverlaid + reference("a.png")); }

TEST(Krea2EditReplayParity, Lora) { expect_trained("frames", "metadata.json", "--lora_checkpoint " + kLoraFile); }
TEST(Krea2EditReplayParity, FullCheckpointed) {
  expect_trained("full", "metadata.json", "--trainable_models dit --use_gradient_checkpointing");
}
TEST(Krea2EditReplayParity, OverlaidLora) { expect_trained("overlaid", "overlaid.json", kOverlaid + "--lora_checkpoint " + kLoraFile); }

TEST_F(Krea2Edit, GivesTheSameLossesInAllWaysOfRunning) {
  const auto how = kLora + "--max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  for (const std::string targets : {"transformer_blocks.0.attn.to_q", "to_gate"}) {
    const auto blocks = "--lora_rank 4 --max_steps 4 --lora_target_modules " + targets + " ";
    train(blocks + "--precompute_timesteps off ", targets + "live");
    EXPECT_THAT(train(blocks + "--precompute_timesteps on ", targets + "ahead"), HasSubstr("dit.modulation"));
    EXPECT_EQ(logged_steps(at(targets + "live")), logged_steps(at(targets + "ahead"))) << targets;
  }
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("kept")));
  train("--task sft:data_process ", "cache");
  train(how + "--task sft:train ", "split", "--dataset_base_path " + quoted(at("cache")) + " ");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
}

TEST_F(Krea2Edit, TrainsBatchesOfPicturesOfOneSize) {
  nlohmann::json rows;
  for (const std::string prompt : {"red apple", "tree of the north and a cat face"}) {
    auto image = (kGolden / "pictures" / (std::to_string(rows.size()) + ".png")).string();
    rows.push_back({{"image", image}, {"prompt", prompt}, {"edit_image", (kKrea2Edit / "a.png").string()}});
  }
  const auto data = "--height 48 --width 64 --dataset_metadata_path " + quoted(write("alike.json", rows.dump())) + " ";
  for (const auto& form : {std::string(), kOverlaid}) {
    train(form + kLora + "--max_steps 3 --overwrite --batch_size 2 ", "batch", data);
    train(form + kLora + "--max_steps 3 --overwrite --gradient_accumulation_steps 2 ", "singles", data);
    expect_same_losses(at("batch"), at("singles"));
  }
}

TEST_F(Krea2Edit, WhatIsChangedIsEncodedAnew) {
  auto cached = kLora + "--max_steps 1 --cache_path " + quoted(at("cache")) + " ";
  const auto data = krea2_edit_data("overlaid.json");
  train(cached, "first", data);
  EXPECT_THAT(train(cached, "again", data), HasSubstr("encode_prompt: 0 of 3 results to compute"));
  EXPECT_THAT(train(cached + kOverlaid, "overlaid", data), HasSubstr("encode_prompt: 3 of 3 results to compute"));
  EXPECT_THAT(train(cached + "--reference_pixels 1024 ", "small", data), HasSubstr("encode_references: 1 of 1 results to compute"));
}

TEST_F(Krea2Edit, ALoraOnTheVisionTowerIsDrawnWith) {
  train("--learning_rate 1e-2 --lora_rank 4 --max_steps 2 --lora_base_model dit,image_encoder ", "run");
  EXPECT_THAT(run_ok("sample " + drawing_model() + "--prompt cat --height 48 --width 64 --num_inference_steps 1 " + reference("a.png") +
                     "--lora " + quoted(at("run/step-2.safetensors")) + " --output_path " + quoted(at("drawn"))),
              HasSubstr("8 layers of image_encoder"));
}

TEST_F(Krea2Edit, IsCountedByThePlan) {
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
  EXPECT_GT(activations(krea2_edit_model()), 2 * activations(krea2_model())) << "a picture of the target's size beside it";
}

TEST_F(Krea2Edit, WhatCannotBeIsRefused) {
  auto fails = [&](const std::string& data, const std::string& options, const std::vector<std::string>& words) {
    expect_one_error(run_burnish(train_with(krea2_edit_model() + data, options), "BURNISH_LOG=error"), 3, words);
  };
  fails(krea2_edit_data(), kOverlaid, {"2 reference pictures", "reference_form frames"});
  nlohmann::json rows{
      {{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "cat"}, {"edit_image", (kKrea2Edit / "b.png").string()}}};
  fails("--max_pixels 3072 --dataset_metadata_path " + quoted(write("b.json", rows.dump())) + " ", kOverlaid,
        {"a reference picture is of", "reference_form frames"});
  fails(krea2_edit_data(), "--caption_dropout 0.5", {"caption_dropout", "text_embedding"});
  refused(3, train_with(krea2_model() + "--extra_inputs edit_image " + krea2_edit_data(), ""), {"<|image_pad|>"});
  refused(2, train_with(krea2_edit_model() + krea2_edit_data(), "--reference_form sideways"),
          {"reference_form 'sideways' is not known; choose frames or overlaid"});
  refused(2, train_with(golden_model() + golden_data(), "--reference_form overlaid --extra_inputs kontext_images"),
          {"is not supported for this model", "leave it out"});
}

}  // namespace burnish::krea2_edit_test
