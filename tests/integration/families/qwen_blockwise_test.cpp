// Qwen-Image's blockwise ControlNets in the whole program: beside DiffSynth-Studio (tests/golden/make_qwen_blockwise.py), in all ways of
// running them, and by DiffSynth-Studio's commands.
#include <gmock/gmock.h>

#include "io/safetensors.h"
#include "tests/integration/families/qwen_image.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::qwen_blockwise_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const fs::path kControls = golden_path("qwen_blockwise");
const std::string kPlain = "--extra_inputs blockwise_controlnet_image ";
const std::string kMasked = "--extra_inputs blockwise_controlnet_image,blockwise_controlnet_inpaint_mask ";
const std::string kFew = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v --max_steps 4 ";

std::string with_control(const std::string& name, const fs::path& model = kQwenImage / "model") {
  return qwen_image_model(model) + "--model " + quoted(kControls / (name + ".safetensors")) + " ";
}
std::string controlled() { return "--dataset_metadata_path " + quoted(kControls / "metadata.json") + " "; }

class QwenBlockwise : public BadInput {
 protected:
  void expect_losses(const std::string& control, const std::string& options, const std::string& name) const {
    SCOPED_TRACE(name);
    run_ok("train " + with_control(control) + controlled() + options +
           "--loss_weighting uniform --max_steps 10 --learning_rate 1e-3 --replay " + quoted(kControls / "replay.safetensors") +
           " --use_gradient_checkpointing --output_path " + quoted(at(name)));
    auto expected = expected_in(kControls).tensor(name);
    auto log = read_log(at(name));
    ASSERT_EQ(std::ssize(log), expected.numel());
    for (int64_t i = 0; i < expected.numel(); ++i) {
      auto loss = expected[i].item<double>();
      EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << i;
    }
  }
  std::vector<std::string> logged_steps(const std::string& name) const { return test::logged_steps(at(name)); }
};

const std::string kGivenLora = "--lora_checkpoint " + quoted(kQwenImage / "lora.safetensors") + " ";

}  // namespace

TEST_F(QwenBlockwise, ALoraTrainsBesideOneAsInDiffSynthStudio) {
  expect_losses("control", kPlain + kGivenLora, "control.loss");
  expect_losses("inpaint", kMasked + kGivenLora, "inpaint.loss");
}

TEST_F(QwenBlockwise, TrainsAsInDiffSynthStudio) {
  expect_losses("control", kPlain + "--trainable_models blockwise_controlnet ", "control.whole.loss");
  expect_losses("inpaint", kMasked + "--trainable_models blockwise_controlnet ", "inpaint.whole.loss");
  auto saved = io::SafetensorsFile::open(at("control.whole.loss") / "step-10.blockwise_controlnet.safetensors");
  auto first = io::SafetensorsFile::open(kControls / "control.safetensors");
  for (const auto& [name, info] : first->tensors()) EXPECT_TRUE(saved->tensors().contains(name)) << name;
}

TEST_F(QwenBlockwise, GivesTheSameLossesInAllWaysOfRunning) {
  auto train = [&](const std::string& options, const std::string& to) {
    run_ok("train " + with_control("inpaint") + controlled() + kMasked + kFew + options + "--output_path " + quoted(at(to)));
  };
  train("--precompute none --precompute_timesteps off ", "live");
  train("", "kept");
  train("--precompute_timesteps on ", "ahead");
  run_ok("train " + with_control("inpaint") + controlled() + kMasked + "--task sft:data_process --output_path " + quoted(at("cache")));
  run_ok("train " + with_control("inpaint") + kMasked + kFew + "--task sft:train --dataset_base_path " + quoted(at("cache")) +
         " --output_path " + quoted(at("split")));
  for (const char* other : {"kept", "ahead", "split"}) EXPECT_EQ(logged_steps("live"), logged_steps(other)) << other;
  run_ok("train " + with_control("inpaint") + controlled() + kFew + "--output_path " + quoted(at("unseen")));
  EXPECT_NE(logged_steps("live"), logged_steps("unseen")) << "without extra_inputs it is not read";
}

TEST_F(QwenBlockwise, ABatchIsItsSamples) {
  auto how = "train " + with_control("control") + controlled() + kPlain + kFew + "--height 48 --width 64 ";
  run_ok(how + "--batch_size 4 --output_path " + quoted(at("batch")));
  run_ok(how + "--gradient_accumulation_steps 4 --output_path " + quoted(at("singles")));
  expect_same_losses(at("batch"), at("singles"));
}

TEST_F(QwenBlockwise, StandsBesideReferencePictures) {
  auto rows = nlohmann::json::parse(read_file(kControls / "metadata.json"));
  for (auto& row : rows) {
    for (auto& [column, cell] : row.items()) {
      if (column != "prompt") cell = (kControls / cell.get<std::string>()).string();
    }
    row["edit_image"] = (kQwenEdit / "a.png").string();
  }
  // A transformer of two layers, so a ControlNet of its first two blocks.
  io::NamedTensors tensors;
  auto all = io::SafetensorsFile::open(kControls / "control.safetensors");
  for (const auto& [name, info] : all->tensors()) {
    if (!name.starts_with("controlnet_blocks.2.")) tensors.emplace_back(name, all->tensor(name).clone());
  }
  io::save_safetensors(at("two.safetensors"), tensors);
  auto how = "train " + qwen_image_model(kQwenEdit / "model") + "--reference_pixels 147456 --model " + quoted(at("two.safetensors")) +
             " --dataset_metadata_path " + quoted(write("rows.json", rows.dump())) + " " + kFew;
  for (const std::string zero : {"", "--zero_cond_t "}) {
    run_ok(how + zero + "--extra_inputs edit_image,blockwise_controlnet_image --output_path " + quoted(at("both" + zero)));
    run_ok(how + zero + "--extra_inputs edit_image --output_path " + quoted(at("one" + zero)));
    EXPECT_NE(logged_steps("both" + zero), logged_steps("one" + zero));
  }
  EXPECT_NE(logged_steps("both"), logged_steps("both--zero_cond_t "));
}

TEST_F(QwenBlockwise, WhatCannotBeIsRefused) {
  auto fails = [&](int code, const std::string& model, const std::string& options, const std::vector<std::string>& words) {
    refused(code, train_with(model + controlled(), options), words);
  };
  fails(2, qwen_image_model(), kPlain, {"'blockwise_controlnet_image' is for a blockwise ControlNet, which is not among the files"});
  fails(2, with_control("control"), kMasked, {"'blockwise_controlnet_inpaint_mask' is for a blockwise ControlNet that inpaints"});
  fails(2, with_control("inpaint"), kPlain, {"inpaints", "blockwise_controlnet_inpaint_mask"});
  fails(2, with_control("inpaint"), "--extra_inputs blockwise_controlnet_inpaint_mask", {"read together with blockwise_controlnet_image"});
  fails(3, with_control("control", kQwenEdit / "model"), kPlain, {"a ControlNet of 3 blocks", "belongs to another model"});
  EXPECT_THAT(run_ok("inspect " + quoted(kControls / "control.safetensors")), HasSubstr("Qwen-Image blockwise ControlNet"));
}

// The commands of its examples/qwen_image/model_training for Canny, Depth and Inpaint. Left out: what fetches data, repeats of the dataset,
// and epochs after the first.
TEST_F(QwenBlockwise, DiffSynthStudiosCommandsRun) {
  fs::create_directories(at("models/Qwen"));
  fs::copy(kQwenImage / "model", at("models/Qwen/Qwen-Image"), fs::copy_options::recursive);
  for (const std::string kind : {"Canny", "Depth", "Inpaint"}) {
    const auto name = "Qwen-Image-Blockwise-ControlNet-" + kind, folder = "models/DiffSynth-Studio/" + name;
    bool inpaints = kind == "Inpaint";
    fs::create_directories(at(folder));
    fs::copy(kControls / (inpaints ? "inpaint.safetensors" : "control.safetensors"), at(folder + "/model.safetensors"));
    const std::string columns = inpaints ? "blockwise_controlnet_image,blockwise_controlnet_inpaint_mask" : "blockwise_controlnet_image";
    for (const std::string trained :
         {"--learning_rate 1e-3 --remove_prefix_in_ckpt \"pipe.blockwise_controlnet.models.0.\" --trainable_models "
          "\"blockwise_controlnet\" ",
          "--learning_rate 1e-4 --remove_prefix_in_ckpt \"pipe.dit.\" --lora_base_model \"dit\" --lora_target_modules "
          "\"to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1\" "
          "--lora_rank 32 "}) {
      auto out = at(name + trained.substr(0, 20));
      run_ok("train --dataset_base_path " + quoted(kControls) + " --dataset_metadata_path " + quoted(kControls / "metadata.json") +
                 " --data_file_keys \"image," + columns +
                 "\" --max_pixels 1048576 --dataset_repeat 1 --model_id_with_origin_paths "
                 "\"Qwen/Qwen-Image:transformer/diffusion_pytorch_model*.safetensors,Qwen/Qwen-Image:text_encoder/model*.safetensors,"
                 "Qwen/Qwen-Image:vae/diffusion_pytorch_model.safetensors,DiffSynth-Studio/" +
                 name + ":model.safetensors\" --num_epochs 1 --output_path " + quoted(out) + " " + trained + "--extra_inputs \"" + columns +
                 "\" --use_gradient_checkpointing --find_unused_parameters",
             "OMP_NUM_THREADS=1 DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
      auto is_saved = [](const std::string& file) { return file.starts_with("step-4") && file.ends_with(".safetensors"); };
      EXPECT_EQ(std::ranges::count_if(files_below(out), is_saved), 1) << name << trained;
    }
  }
}

}  // namespace burnish::qwen_blockwise_test
