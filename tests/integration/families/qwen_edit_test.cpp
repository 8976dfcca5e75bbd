// Qwen-Image-Edit in the whole program: beside diffusers and peft (tests/golden/make_qwen_edit.py), in all ways of running it, and by
// DiffSynth-Studio's commands.
#include <gmock/gmock.h>

#include "tests/integration/families/qwen_image.h"
#include "tests/integration/parity.h"
#include "tests/integration/refused.h"
#include "tests/integration/runs.h"

namespace burnish::qwen_edit_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const fs::path& kEdit = kQwenEdit;
const std::string kOn = "--extra_inputs edit_image ";
const std::string kLora = "--learning_rate 1e-3 --lora_rank 4 --lora_target_modules to_q,to_v ";

std::string picture(const std::string& name) { return quoted(kEdit / name); }
std::string sized_model() { return qwen_image_model(kEdit / "model") + "--reference_pixels 147456 "; }
/// Rows with one reference, with two, with none, and with one.
std::string mixed() { return "--dataset_metadata_path " + quoted(kEdit / "metadata.json") + " " + kOn; }

void expect_drawn(const std::string& name, const std::string& options) {
  test::expect_latents(
      kEdit, name,
      sized_model() + "--prompt 'red apple' --prompt 'tree of the north, a cat face, smiling, a red apple on the tree, and a cat on it' " +
          options);
}

const std::string kOne = "--reference " + picture("a.png") + " --reference_prompt plain ";
const std::string kTwo = "--reference " + picture("a.png") + " --reference " + picture("b.png") + " ";
const std::string kGuided = "--negative_prompt cat --cfg_scale 2.5 ";

class QwenEdit : public BadInput {
 protected:
  std::string train(const std::string& options, const std::string& to) {
    return run_ok("train " + sized_model() + options + " --output_path " + quoted(at(to)));
  }
  static nlohmann::json row(int i, const nlohmann::json& references) {
    return {{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()},
            {"prompt", i == 0 ? "red apple" : "tree of the north"},
            {"edit_image", references}};
  }
};

}  // namespace

TEST(QwenEditSampleParity, OnePicture) { expect_drawn("latents.plain", kOne); }
TEST(QwenEditSampleParity, OnePictureGuided) { expect_drawn("latents.plain_cfg", kOne + kGuided); }
TEST(QwenEditSampleParity, TwoPictures) { expect_drawn("latents.plus", kTwo); }
TEST(QwenEditSampleParity, TwoPicturesGuidedOneAtATime) { expect_drawn("latents.plus_cfg", kTwo + kGuided + "--batch_size 1"); }
TEST(QwenEditSampleParity, APictureOfAnotherSize) { expect_drawn("latents.scaled", "--reference " + picture("c.png")); }
TEST(QwenEditSampleParity, ZeroCondT) { expect_drawn("latents.zero", kTwo + "--zero_cond_t"); }

TEST(QwenEditReplayParity, Lora) {
  expect_steps(kEdit, "lora", sized_model() + mixed() + "--loss_weighting uniform --lora_checkpoint " + quoted(kEdit / "lora.safetensors"));
}
TEST(QwenEditReplayParity, FullWithZeroCondTCheckpointed) {
  expect_steps(kEdit, "full",
               sized_model() + mixed() + "--loss_weighting uniform --trainable_models dit --zero_cond_t --use_gradient_checkpointing");
}

TEST_F(QwenEdit, TrainsAsInDiffSynthStudio) {
  const auto golden = fs::path(golden_path("qwen_edit_diffsynth"));
  auto how = mixed() + "--loss_weighting uniform --reference_prompt by_count --max_steps 8 --learning_rate 1e-3 --lora_checkpoint " +
             quoted(kEdit / "lora.safetensors") + " --replay " + quoted(golden / "replay.safetensors") + " ";
  for (const std::string name : {"", "zero."}) {
    train(how + (name.empty() ? "" : "--zero_cond_t"), name + "run");
    auto expected = expected_in(golden).tensor(name + "loss");
    auto log = read_log(at(name + "run"));
    ASSERT_EQ(std::ssize(log), expected.numel());
    for (int64_t i = 0; i < expected.numel(); ++i) {
      auto loss = expected[i].item<double>();
      EXPECT_NEAR(log[static_cast<size_t>(i)]["loss"].get<double>(), loss, tolerance(1e-5) * loss) << name << i;
    }
  }
}

TEST_F(QwenEdit, GivesTheSameLossesInAllWaysOfRunning) {
  auto how = mixed() + kLora + "--zero_cond_t --max_steps 6 ";
  train(how + "--precompute none --precompute_timesteps off ", "live");
  train(how, "kept");
  train(how + "--precompute_timesteps on ", "ahead");
  for (const char* other : {"kept", "ahead"}) EXPECT_EQ(logged_steps(at("live")), logged_steps(at(other))) << other;

  train(mixed() + "--task sft:data_process ", "cache");
  auto split = kLora + "--zero_cond_t --max_steps 6 --task sft:train --dataset_base_path " + quoted(at("cache")) + " ";
  train(split + kOn, "split");
  EXPECT_EQ(logged_steps(at("live")), logged_steps(at("split")));
  expect_one_error(
      run_burnish("train " + qwen_image_model(kEdit / "model") + split + kOn + "--output_path " + quoted(at("other")), "BURNISH_LOG=error"),
      3, {"reference_pixels 147456", "reference_pixels 1048576"});
}

TEST_F(QwenEdit, TrainsBatchesOfPicturesOfOneSize) {
  nlohmann::json rows{row(0, (kEdit / "a.png").string()), row(1, (kEdit / "a.png").string())};
  auto how = "--dataset_metadata_path " + quoted(write("alike.json", rows.dump())) + " " + kOn + kLora + "--zero_cond_t --max_steps 3 ";
  train(how + "--batch_size 2 ", "batch");
  train(how + "--gradient_accumulation_steps 2 ", "singles");
  expect_same_losses(at("batch"), at("singles"));
  EXPECT_THAT(train(mixed() + kLora + "--max_steps 2 --batch_size 2 ", "mixed"), HasSubstr("4 samples, 4 batches an epoch"));
}

TEST_F(QwenEdit, WhatIsChangedIsEncodedAnew) {
  auto cached = mixed() + kLora + "--max_steps 1 --cache_path " + quoted(at("cache")) + " ";
  train(cached, "first");
  EXPECT_THAT(train(cached, "again"), HasSubstr("encode_prompt: 0 of 4 results to compute"));
  EXPECT_THAT(train(cached + "--reference_prompt by_count ", "counted"), HasSubstr("encode_prompt: 4 of 4 results to compute"));
  nlohmann::json rows{row(1, (kEdit / "a.png").string())};
  auto prompt = "--dataset_metadata_path " + quoted(write("a.json", rows.dump())) + " " + kOn + kLora + "--max_steps 1 --cache_path " +
                quoted(at("cache"));
  train(prompt, "one");
  rows[0]["edit_image"] = (kEdit / "b.png").string();
  write("a.json", rows.dump());
  EXPECT_THAT(train(prompt, "other"), HasSubstr("encode_prompt: 1 of 1 results to compute")) << "a prompt is encoded with its pictures";
}

TEST_F(QwenEdit, IsSeenByPreviewsAndValidation) {
  auto prompts = write("prompts.txt", "a red circle --d 3 --s 2 --w 64 --h 48 --ci " + (kEdit / "a.png").string() +
                                          "\na red circle --d 3 --s 2 --w 64 --h 48\n");
  train(mixed() + kLora + "--max_steps 2 --validation_steps 1 --validation_metadata_path " + quoted(kEdit / "metadata.json") +
            " --preview_prompts " + quoted(prompts),
        "run");
  std::vector<std::string> pictures;
  for (const auto& file : files_below(at("run") / "samples")) {
    if (file.ends_with(".png")) pictures.push_back(read_file(at("run") / "samples" / file));
  }
  ASSERT_EQ(pictures.size(), 4u) << "two before and two after training";
  EXPECT_NE(pictures[0], pictures[1]);
}

TEST_F(QwenEdit, ALoraOnTheVisionTowerIsDrawnWithAndConverted) {
  auto how = mixed() + "--learning_rate 1e-2 --lora_rank 4 --max_steps 2 ";
  train(how + "--lora_base_model dit,image_encoder ", "run");
  auto lora = quoted(at("run/step-2.safetensors"));
  EXPECT_THAT(run_ok("sample " + sized_model() + "--prompt cat --height 48 --width 64 --num_inference_steps 1 " + kOne + "--lora " + lora +
                     " --output_path " + quoted(at("drawn"))),
              HasSubstr("15 layers of image_encoder"));
  run_ok("convert --model " + quoted(kEdit / "model") + " --lora_format kohya " + lora + " " + quoted(at("kohya.safetensors")));
  auto names = io::TensorSource::open({at("kohya.safetensors")}).names();
  EXPECT_TRUE(std::ranges::any_of(names, [](const auto& name) { return name.starts_with("lora_vis_"); }));
}

TEST_F(QwenEdit, IsCountedByThePlan) {
  auto peak = [&](const std::string& more) {
    auto outcome = run_burnish("plan --json --num_threads 1 " + qwen_image_model(kEdit / "model") +
                                   "--height 192 --width 192 --max_steps 10 --lora_rank 4 " + more,
                               "BURNISH_LOG=error");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    auto plan = nlohmann::json::parse(outcome.output, nullptr, /*allow_exceptions=*/false);
    return plan["stages"].back()["peak"].value("activations", 0.0) +
           plan["stages"][plan["stages"].size() - 2]["peak"].value("activations", 0.0);
  };
  EXPECT_GT(peak(kOn + "--reference_pixels 147456"), 3 * peak("")) << "a picture of 384 x 384 beside one of 192 x 192";
}

TEST_F(QwenEdit, WhatCannotBeIsRefused) {
  auto base = sized_model();
  auto fails = [&](const std::string& options, const std::vector<std::string>& words) {
    expect_one_error(run_burnish(train_with(base + mixed(), options), "BURNISH_LOG=error"), 3, words);
  };
  fails("--reference_prompt plain", {"2 reference pictures", "reference_prompt numbered"});
  fails("--caption_dropout 0.5", {"caption_dropout", "text_embedding"});
  refused(2, train_with(base + mixed(), "--reference_prompt twice"),
          {"reference_prompt 'twice' is not known; choose auto, by_count, plain or numbered"});
  refused(2, train_with(base + mixed(), "--reference_pixels -1"), {"reference_pixels"});
  refused(3, train_with(base + mixed(), "--processor_path " + quoted(kEdit)), {"processor_path", "preprocessor_config.json"});
  refused(3, train_with(qwen_image_model() + "--reference_pixels 147456 " + mixed(), ""), {"<|image_pad|>", "Qwen2.5-VL"});
  refused(2, train_with(golden_model() + golden_data(), kOn), {"extra_inputs 'edit_image' names reference pictures", "'kontext_images'"});
  for (const char* option : {"--zero_cond_t", "--reference_prompt plain", "--reference_pixels 4096"})
    refused(2, train_with(golden_model() + golden_data() + "--extra_inputs kontext_images ", option),
            {"is not supported for this model", "leave it out"});
}

TEST_F(QwenEdit, AFolderMayLackTheProcessor) {
  fs::copy(kEdit / "model", at("model"), fs::copy_options::recursive);
  fs::remove_all(at("model/processor"));
  run_ok("train " + qwen_image_model(at("model")) + "--reference_pixels 147456 " + mixed() + kLora + "--max_steps 1 --output_path " +
         quoted(out()));
}

TEST_F(QwenEdit, WithoutReferencesIsSaid) {
  EXPECT_THAT(run_ok("train " + qwen_image_model(kEdit / "model") + "--dataset_metadata_path " + quoted(kEdit / "metadata.json") + " " +
                     kLora + "--max_steps 1 --output_path " + quoted(at("run"))),
              HasSubstr("Qwen-Image-Edit was trained with reference pictures, and this run has none"));
  EXPECT_THAT(run_ok("sample " + sized_model() + "--prompt cat --height 48 --width 64 --num_inference_steps 1 --output_path " +
                     quoted(at("drawn"))),
              HasSubstr("nothing is drawn with any"));
  EXPECT_THAT(train(mixed() + kLora + "--max_steps 1", "with"), Not(HasSubstr("this run has none")));
}

namespace {

/// Models and data as DiffSynth-Studio's examples name them.
class QwenEditCommand : public QwenEdit {
 protected:
  QwenEditCommand() {
    for (const std::string name : {"Qwen-Image", "Qwen-Image-Edit", "Qwen-Image-Edit-2509", "Qwen-Image-Edit-2511"}) {
      auto model = at("models/Qwen/" + name);
      fs::create_directories(model.parent_path());
      fs::copy(kEdit / "model", model, fs::copy_options::recursive);
      fs::remove(model / "model_index.json");
    }
    fs::create_directories(at("data"));
    fs::copy(kGolden / "pictures/0.png", at("data/image.jpg"));
    for (const std::string name : {"a", "c"}) fs::copy(kEdit / (name + ".png"), at("data/edit_" + name + ".jpg"));
    write("data/metadata.csv", "image,prompt,edit_image\nimage.jpg,red apple,edit_c.jpg\n");
    write("data/metadata.json", R"([{"image": "image.jpg", "prompt": "red apple", "edit_image": ["edit_a.jpg", "edit_c.jpg"]}])");
  }
  /// The command of an example; `how` is what trains.
  std::string example(const std::string& name, const std::string& metadata, const std::string& how) {
    auto outcome =
        run_burnish("train --dataset_base_path " + quoted(at("data")) + " --dataset_metadata_path " + quoted(at("data/" + metadata)) +
                        " --data_file_keys \"image,edit_image\" --extra_inputs \"edit_image\" --max_pixels 1048576 --dataset_repeat 2 "
                        "--model_id_with_origin_paths \"Qwen/" +
                        name +
                        ":transformer/diffusion_pytorch_model*.safetensors,Qwen/Qwen-Image:text_encoder/model*.safetensors,"
                        "Qwen/Qwen-Image:vae/diffusion_pytorch_model.safetensors\" --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" "
                        "--output_path " +
                        quoted(at(name)) + " " + how + " --use_gradient_checkpointing --find_unused_parameters",
                    "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_TRUE(fs::exists(at(name) / "step-2.safetensors"));
    return outcome.output;
  }
};

const std::string kFullTraining = "--learning_rate 1e-5 --trainable_models \"dit\"";
const std::string kLoraTraining =
    "--learning_rate 1e-4 --lora_base_model \"dit\" --lora_target_modules "
    "\"to_q,to_k,to_v,add_q_proj,add_k_proj,add_v_proj,to_out.0,to_add_out,img_mlp.net.2,img_mod.1,txt_mlp.net.2,txt_mod.1\" --lora_rank "
    "32 "
    "--dataset_num_workers 8";

}  // namespace

TEST_F(QwenEditCommand, Lora) {
  EXPECT_THAT(example("Qwen-Image-Edit", "metadata.csv", kLoraTraining), HasSubstr("lora of rank 32, scale 1 on 24 layers"));
  example("Qwen-Image-Edit-2509", "metadata.json", kLoraTraining);
  example("Qwen-Image-Edit-2511", "metadata.json", kLoraTraining + " --zero_cond_t");
  EXPECT_NE(logged_steps(at("Qwen-Image-Edit-2509")), logged_steps(at("Qwen-Image-Edit-2511")));
}

TEST_F(QwenEditCommand, Full) {
  example("Qwen-Image-Edit", "metadata.csv", kFullTraining);
  example("Qwen-Image-Edit-2509", "metadata.json", kFullTraining);
  example("Qwen-Image-Edit-2511", "metadata.json", kFullTraining + " --zero_cond_t");
}

}  // namespace burnish::qwen_edit_test
