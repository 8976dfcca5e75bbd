// Qwen-Image-2.1's ControlNet in the whole program: beside DiffSynth-Studio (tests/golden/make_qwen_image_21_control.py), and in all ways
// of running it.
#include <gmock/gmock.h>

#include "io/safetensors.h"
#include "tests/integration/families/qwen_image_21.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::qwen_image_21_control_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kControls = golden_path("qwen_image_21_control");
const std::string kControl = "--extra_inputs controlnet_image ";
const std::string kInpaint = "--extra_inputs controlnet_inpaint_image,controlnet_inpaint_mask ";
const std::string kBoth = "--extra_inputs controlnet_image,controlnet_inpaint_image,controlnet_inpaint_mask ";
const std::string kFew = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,img_mlp.proj --max_steps 4 ";
const std::string kLora = "--lora_checkpoint " + quoted(kQwenImage21 / "lora.safetensors") + " ";

std::string controlled_model() { return qwen_image_21_model() + "--model " + quoted(kControls / "control.safetensors") + " "; }
std::string controlled() { return "--dataset_metadata_path " + quoted(kControls / "metadata.json") + " " + kQwenImage21Size; }

void expect_trained(const std::string& name, const std::string& options) {
  test::expect_steps(kControls, name, controlled_model() + controlled() + "--loss_weighting uniform " + options, 2e-6);
}

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kControls, name,
      controlled_model() +
          "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " + options,
      1e-5, kQwenImage21Size);
}

const std::string kControlPicture = "--controlnet_image " + quoted(kGolden / "pictures/1.png") + " ";
const std::string kInpaintPictures = "--controlnet_inpaint_image " + quoted(kGolden / "pictures/0.png") + " --controlnet_inpaint_mask " +
                                     quoted(fs::path(golden_path("flux_extras/white_0.png"))) + " ";

class QwenImage21Control : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to, const std::string& data = controlled()) const {
    return run_ok("train " + controlled_model() + data + options + " --output_path " + quoted(at(to)));
  }
  std::vector<std::string> logged_steps(const std::string& name) const { return test::logged_steps(at(name)); }
};

}  // namespace

TEST(QwenImage21ControlReplayParity, UnderAControlPicture) { expect_trained("control", kControl + kLora); }
TEST(QwenImage21ControlReplayParity, WhatIsDrawnAnew) { expect_trained("inpaint", kInpaint + kLora); }
TEST(QwenImage21ControlReplayParity, BothCheckpointed) { expect_trained("both", kBoth + kLora + "--use_gradient_checkpointing"); }
TEST(QwenImage21ControlReplayParity, TheControlNet) { expect_trained("both.whole", kBoth + "--trainable_models controlnet"); }

TEST(QwenImage21ControlSampleParity, UnderAControlPicture) { expect_drawn("latents.control", kControlPicture); }
TEST(QwenImage21ControlSampleParity, Both) { expect_drawn("latents.both", kControlPicture + kInpaintPictures + "--batch_size 1"); }
TEST(QwenImage21ControlSampleParity, BothGuided) {
  expect_drawn("latents.both_cfg", kControlPicture + kInpaintPictures + "--negative_prompt cat --cfg_scale 2.5");
}

TEST_F(QwenImage21Control, GivesTheSameLossesInAllWaysOfRunning) {
  const auto how = kBoth + kFew;
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  train(kBoth + "--task sft:data_process ", "cache");
  train(how + "--task sft:train ", "split", "--dataset_base_path " + quoted(at("cache")) + " ");
  for (const char* other : {"kept", "ahead", "split"}) EXPECT_EQ(logged_steps("live"), logged_steps(other)) << other;
  train(kFew, "unseen");
  EXPECT_NE(logged_steps("live"), logged_steps("unseen")) << "without extra_inputs it is not read";
}

TEST_F(QwenImage21Control, ABatchIsItsSamples) {
  train(kControl + kFew + "--batch_size 4 ", "batch");
  train(kControl + kFew + "--gradient_accumulation_steps 4 ", "singles");
  expect_same_losses(at("batch"), at("singles"));
}

TEST_F(QwenImage21Control, WhatTrainedIsAControlNetOfTheSameNames) {
  train(kControl + "--trainable_models controlnet --learning_rate 1e-2 --max_steps 2 ", "run");
  const auto file = at("run") / "step-2.controlnet.safetensors";
  auto saved = io::SafetensorsFile::open(file), first = io::SafetensorsFile::open(kControls / "control.safetensors");
  for (const auto& [name, info] : first->tensors()) EXPECT_TRUE(saved->tensors().contains(name)) << name;
  EXPECT_EQ(saved->tensors().size(), first->tensors().size());
  auto latents = [&](const fs::path& net) {
    run_ok("sample " + qwen_image_21_model() + "--model " + quoted(net) + " " + kControlPicture + kQwenImage21Size +
           "--prompt cat --num_inference_steps 2 --save_latents " + quoted(at("latents.safetensors")) + " --output_path " +
           quoted(at("drawn")));
    return io::SafetensorsFile::open(at("latents.safetensors"))->tensor("latents").clone();
  };
  EXPECT_GT(relative_error(latents(file), latents(kControls / "control.safetensors")), 1e-3);
}

TEST_F(QwenImage21Control, StandsBesideReferencePictures) {
  auto rows = nlohmann::json::parse(read_file(kControls / "metadata.json"));
  for (auto& row : rows) {
    for (auto& [column, cell] : row.items()) {
      if (column != "prompt") cell = (kControls / cell.get<std::string>()).string();
    }
    row["edit_image"] = (kQwenImage21Edit / "a.png").string();
  }
  const auto data = "--dataset_metadata_path " + quoted(write("rows.json", rows.dump())) + " " + kQwenImage21Size;
  const auto how = kFew + "--reference_pixels 2048 ";
  train(how + "--extra_inputs edit_image,controlnet_image ", "both", data);
  train(how + "--extra_inputs edit_image ", "one", data);
  EXPECT_NE(logged_steps("both"), logged_steps("one"));
}

TEST_F(QwenImage21Control, WhatCannotBeIsRefused) {
  auto fails = [&](int code, const std::string& model, const std::string& options, const std::vector<std::string>& words) {
    refused(code, train_with(model + controlled(), options), words);
  };
  fails(2, qwen_image_21_model(), kControl, {"'controlnet_image' is for a ControlNet, which is not among the files"});
  fails(2, controlled_model(), "--extra_inputs controlnet_inpaint_mask", {"read together with controlnet_inpaint_image"});
  fails(2, controlled_model(), "--extra_inputs controlnet_image,controlnet_inpaint_image", {"read together with controlnet_inpaint_mask"});
  io::NamedTensors tensors;
  auto all = io::SafetensorsFile::open(kControls / "control.safetensors");
  for (const auto& [name, info] : all->tensors())
    tensors.emplace_back(name, name == "control_img_in.weight" ? all->tensor(name).narrow(1, 0, 16).clone() : all->tensor(name).clone());
  io::save_safetensors(at("narrow.safetensors"), tensors);
  fails(3, qwen_image_21_model() + "--model " + quoted(at("narrow.safetensors")) + " ", kControl,
        {"a ControlNet of 2 blocks", "for tokens of 16 numbers", "belongs to another model"});
  EXPECT_THAT(run_ok("inspect " + quoted(kControls / "control.safetensors")), HasSubstr("Qwen-Image-2.1 ControlNet"));
}

TEST_F(QwenImage21Control, IsCountedByThePlan) {
  auto peak = [&](const std::string& model) {
    auto outcome = run_burnish(
        "plan --json --num_threads 1 " + model + "--height 192 --width 192 --max_steps 10 --lora_rank 4 --use_gradient_checkpointing",
        "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    const auto plan = nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    for (const auto& stage : plan["stages"]) {
      if (stage["name"] == "step") return stage["peak"].value("activations", 0.0);
    }
    return 0.0;
  };
  EXPECT_GT(peak(controlled_model() + kControl), 1.2 * peak(qwen_image_21_model()));
}

}  // namespace burnish::qwen_image_21_control_test
