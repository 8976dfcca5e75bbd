// What users meet when they train SDXL and SD 1.5: refusals, files, the cache, distribution of options.
#include "tests/integration/families/stable_diffusion.h"
#include "tests/integration/refused.h"
#include "tests/single_file.h"

namespace burnish::sdxl_train_test {
using namespace burnish::test;

namespace {

std::string train(const std::string& pipeline, const fs::path& out, const std::string& options) {
  return "train " + sd_model(pipeline) + sd_data(pipeline) + "--lora_rank 4 --max_steps 3 --output_path '" + out.string() + "' " + options;
}

}  // namespace

TEST(StableDiffusionTraining, OptionsThatMeanNothingAreRefusedBeforeLoading) {
  Scratch folder;
  auto refused_here = [&](const std::string& pipeline, const std::string& options, const std::string& text) {
    auto outcome = run_burnish(train(pipeline, folder / "run", options));
    EXPECT_EQ(outcome.exit_code, 2) << options << outcome.output;
    EXPECT_NE(outcome.output.find(text), std::string::npos) << options << outcome.output;
    if (fs::exists(folder / "run")) expect_only_status(folder / "run", outcome);
    fs::remove_all(folder / "run");
  };
  refused_here("sdxl_pipeline", "--timestep_sampling flux_shift", "moves sigma");
  refused_here("sdxl_pipeline", "--loss_weighting cosmap", "function of sigma");
  refused_here("sdxl_pipeline", "--zero_terminal_snr", "needs prediction_type v_prediction");
  refused_here("sdxl_pipeline", "--prediction_type velocity", "choose epsilon or v_prediction");
  refused_here("sdxl_pipeline", "--max_token_length 77", "multiple of 75");
  refused_here("sdxl_pipeline", "--max_sequence_length 77", "give max_token_length");
  refused_here("sdxl_pipeline", "--clip_skip 9", "goes back beyond");
  refused_here("sdxl_pipeline", "--min_snr_gamma -1", "min_snr_gamma");
  refused_here("sdxl_pipeline", "--noise_offset -1", "noise_offset");
  refused_here("sdxl_pipeline", "--height 44", "multiples of 8");
  auto flux = run_burnish("train " + golden_model() + golden_data() + "--clip_skip 2 --output_path '" + (folder / "run").string() + "'");
  EXPECT_EQ(flux.exit_code, 2);
  EXPECT_NE(flux.output.find("clip_skip is not supported for this model"), std::string::npos) << flux.output;
  auto sampler = run_burnish("sample " + golden_model() + "--prompt x --height 48 --width 64 --sampler ddim --output_path '" +
                             (folder / "out").string() + "'");
  EXPECT_EQ(sampler.exit_code, 2);
  EXPECT_NE(sampler.output.find("choose euler"), std::string::npos) << sampler.output;
}

TEST(StableDiffusionTraining, PartsOfDifferentModelsAreRefused) {
  Scratch folder;
  auto outcome = run_burnish("train --model '" + golden_path("sdxl_pipeline/model/unet") + "' --model '" +
                             golden_path("sd15_pipeline/model") + "' --tokenizer_path '" + (kAssets / "tokenizer").string() + "' " +
                             sd_data("sdxl_pipeline") + "--output_path '" + (folder / "run").string() + "'");
  EXPECT_EQ(outcome.exit_code, 3) << outcome.output;
  EXPECT_NE(outcome.output.find("second text encoder"), std::string::npos) << outcome.output;
}

TEST(StableDiffusionTraining, NoiseOffsetChangesTheNoiseAndNothingElse) {
  Scratch folder;
  ASSERT_EQ(run_burnish(train("sdxl_pipeline", folder / "plain", "")).exit_code, 0);
  ASSERT_EQ(run_burnish(train("sdxl_pipeline", folder / "offset", "--noise_offset 0.1")).exit_code, 0);
  ASSERT_EQ(run_burnish(train("sdxl_pipeline", folder / "again", "--noise_offset 0.1 --use_gradient_checkpointing")).exit_code, 0);
  auto plain = losses(folder / "plain"), offset = losses(folder / "offset"), again = losses(folder / "again");
  EXPECT_NE(plain[0], offset[0]);
  EXPECT_NEAR(plain[0], offset[0], 0.1 * plain[0]);
  for (size_t i = 0; i < offset.size(); ++i) EXPECT_NEAR(again[i], offset[i], 1e-6 * offset[i]);
}

TEST(StableDiffusionTraining, TheSingleFileTrainsAsTheFolder) {
  Scratch folder;
  for (const std::string pipeline : {"sdxl_pipeline", "sd15_pipeline"}) {
    auto options = "--replay '" + golden_path(pipeline + "/replay.safetensors") + "' --loss_weighting uniform";
    ASSERT_EQ(run_burnish(train(pipeline, folder / pipeline / "folder", options)).exit_code, 0);
    auto single = "train --model '" + single_file(pipeline) + "' --tokenizer_path '" + (kAssets / "tokenizer").string() +
                  "' --dtype fp32 " + sd_data(pipeline) + "--lora_rank 4 --max_steps 3 --output_path '" +
                  (folder / pipeline / "single").string() + "' " + options;
    auto outcome = run_burnish(single);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
    auto a = losses(folder / pipeline / "folder"), b = losses(folder / pipeline / "single");
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance(1e-5) * a[i]) << pipeline;
  }
}

TEST(StableDiffusionTraining, FromACacheIsTheSameRun) {
  Scratch folder;
  auto cache = "--cache_path '" + (folder / "cache").string() + "' ";
  ASSERT_EQ(run_burnish(train("sdxl_pipeline", folder / "memory", "")).exit_code, 0);
  auto made = run_burnish("cache " + sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline") + cache);
  ASSERT_EQ(made.exit_code, 0) << made.output;
  ASSERT_EQ(run_burnish(train("sdxl_pipeline", folder / "cached", cache)).exit_code, 0);
  auto alone = run_burnish("train " + sd_model("sdxl_pipeline") + "--task sft:train --dataset_base_path '" + (folder / "cache").string() +
                           "' --lora_rank 4 --max_steps 3 --output_path '" + (folder / "alone").string() + "'");
  ASSERT_EQ(alone.exit_code, 0) << alone.output;
  EXPECT_EQ(losses(folder / "memory"), losses(folder / "cached"));
  EXPECT_EQ(losses(folder / "memory"), losses(folder / "alone"));
  // Another size conditioning or clip skip is another entry.
  auto plan = run_burnish("plan --graph " + sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline") + "--lora_rank 4");
  EXPECT_EQ(plan.exit_code, 0) << plan.output;
  EXPECT_NE(plan.output.find("time_ids"), std::string::npos) << plan.output;
}

TEST(StableDiffusionTraining, KohyaFilesGoBothWays) {
  Scratch folder;
  // sd-scripts has the layers of SDXL by their original names, and those of SD 1.5 by diffusers'.
  const std::pair<std::string, std::string> kCases[] = {{"sdxl_pipeline", "input_blocks_4_1"},
                                                        {"sd15_pipeline", "down_blocks_1_attentions_0"}};
  for (const auto& [pipeline, block] : kCases) {
    auto out = folder / pipeline / "run";
    ASSERT_EQ(run_burnish(train(pipeline, out, "--lora_format kohya --save_dtype fp32")).exit_code, 0);
    auto file = io::SafetensorsFile::open(out / "step-3.safetensors");
    EXPECT_TRUE(file->tensors().contains("lora_unet_" + block + "_transformer_blocks_0_attn1_to_q.lora_down.weight"));
    auto again =
        run_burnish(train(pipeline, folder / pipeline / "again", "--lora_checkpoint '" + (out / "step-3.safetensors").string() + "'"));
    EXPECT_EQ(again.exit_code, 0) << again.output;
  }
}

/// LoRA of the UNet and both text encoders in one file.
class SdxlEncoderLora : public testing::Test {
 protected:
  fs::path trained(const std::string& run, int steps, const std::string& options = "") const {
    auto out = folder / run;
    auto outcome = run_burnish("train " + sd_model("sdxl_pipeline") + sd_data("sdxl_pipeline") +
                               "--lora_rank 4 --lora_alpha 8 --lora_base_model unet,text_encoder,text_encoder_2 --learning_rate 1e-2 "
                               "--text_encoder_lr 5e-3,text_encoder_2=2e-3 --save_dtype fp32 --max_steps " +
                               std::to_string(steps) + " --output_path '" + out.string() + "' " + options);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return out / ("step-" + std::to_string(steps) + ".safetensors");
  }
  /// The file that reading `lora` and saving it again gives.
  fs::path saved_again(const fs::path& lora, const std::string& run, const std::string& format) const {
    return trained(run, 1,
                   "--lora_alpha 0 --learning_rate 1e-30 --text_encoder_lr 1e-30 --weight_decay 0 --lora_format " + format +
                       " --lora_checkpoint '" + lora.string() + "'");
  }
  at::Tensor latents(const std::string& lora) const {
    auto file = folder / "latents.safetensors";
    auto outcome = run_burnish("sample " + sd_model("sdxl_pipeline") + "--prompt cat " + sd_size("sdxl_pipeline") +
                               "--num_inference_steps 3 --save_latents '" + file.string() + "' --output_path '" +
                               (folder / "pictures").string() + "' " + lora);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    return io::SafetensorsFile::open(file)->tensor("latents").clone();
  }
  Scratch folder;
};

TEST_F(SdxlEncoderLora, AllThreeTrainAndAreInTheFile) {
  auto file = io::SafetensorsFile::open(trained("run", 3));
  std::map<std::string, int> layers;
  for (const auto& [name, info] : file->tensors()) {
    if (!name.ends_with(".lora_B.weight")) continue;
    ++layers[name.substr(0, name.find('.'))];
    // Zero at the start. The UNet reads CLIP's last layer but one, so nothing reaches the last.
    bool unread = name.starts_with("text_encoder.text_model.encoder.layers.2.");
    EXPECT_EQ(file->tensor(name).abs().max().item<float>() > 0, !unread) << name;
  }
  EXPECT_TRUE(file->tensors().contains("text_encoder.text_model.encoder.layers.0.self_attn.q_proj.lora_A.weight"));
  EXPECT_TRUE(file->tensors().contains("text_encoder_2.text_model.encoder.layers.0.mlp.fc1.lora_A.weight"));
  EXPECT_EQ(layers.size(), 3u);
  for (const char* part : {"unet", "text_encoder", "text_encoder_2"}) EXPECT_GE(layers[part], 12) << part;
  EXPECT_EQ(layers["text_encoder"] % 6, 0);
}

TEST_F(SdxlEncoderLora, ResumesBitForBit) {
  auto whole = trained("whole", 4);
  trained("parts", 2);
  EXPECT_EQ(read_file(whole), read_file(trained("parts", 4, "--resume")));
  EXPECT_EQ(losses(folder / "whole"), losses(folder / "parts"));
}

TEST_F(SdxlEncoderLora, ReadsBackTheSameInEitherLayout) {
  auto lora = trained("run", 3);
  auto kohya = saved_again(lora, "kohya", "kohya");
  auto names = io::SafetensorsFile::open(kohya);
  for (const char* layer : {"lora_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_q",
                            "lora_te1_text_model_encoder_layers_0_self_attn_q_proj", "lora_te2_text_model_encoder_layers_0_mlp_fc1"})
    EXPECT_TRUE(names->tensors().contains(std::string(layer) + ".lora_down.weight")) << layer;
  auto first = io::SafetensorsFile::open(lora), again = io::SafetensorsFile::open(saved_again(kohya, "diffusers", "diffusers"));
  EXPECT_EQ(again->tensors().size(), first->tensors().size());
  for (const auto& [name, info] : first->tensors())
    EXPECT_LE(relative_error(again->tensor(name), first->tensor(name)), tolerance(1e-6)) << name;
  auto drawn = latents("--lora '" + lora.string() + "'");
  EXPECT_GT(relative_error(drawn, latents("")), 1e-3);
  EXPECT_LE(relative_error(latents("--lora '" + kohya.string() + "'"), drawn), tolerance(1e-5));
}

TEST(StableDiffusionFiles, InspectSaysWhatTheyAre) {
  auto single = run_burnish("inspect '" + single_file("sdxl_pipeline") + "'");
  EXPECT_NE(single.output.find("SDXL UNet (3 levels from 8 channels, text of width 40, original names) + CLIP text encoder + OpenCLIP text "
                               "encoder + KL autoencoder"),
            std::string::npos)
      << single.output;
  auto folder = run_burnish("inspect '" + golden_path("sd15_pipeline/model") + "'");
  EXPECT_NE(folder.output.find("SD 1.5 UNet (4 levels from 8 channels, text of width 16, diffusers names)"), std::string::npos)
      << folder.output;
}

TEST(StableDiffusionTraining, LayersBehindTheOneThatIsReadGetNoGradient) {
  Scratch folder;
  int number = 0;
  for (const auto& [pipeline, encoder, clip_skip, expected] : {std::tuple{"sd15_pipeline", "text_encoder", 0, 0},
                                                               {"sd15_pipeline", "text_encoder", 2, 16},
                                                               {"sdxl_pipeline", "text_encoder", 0, 18},
                                                               {"sdxl_pipeline", "text_encoder", 1, 2},
                                                               {"sdxl_pipeline", "text_encoder", 3, 34},
                                                               {"sdxl_pipeline", "text_encoder_2", 0, 0}}) {
    auto options = std::string("--max_steps 1 --trainable_models ") + encoder + " --clip_skip " + std::to_string(clip_skip);
    auto outcome = run_burnish(train(pipeline, folder / std::to_string(number++), options));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_EQ(outcome.output.find("got no gradient"), std::string::npos) << pipeline << options << outcome.output;
    auto note = std::to_string(expected) + " of 52 trained parameters are never reached";
    EXPECT_EQ(outcome.output.find(expected > 0 ? note : "never reached") != std::string::npos, expected > 0) << options << outcome.output;
  }
}

}  // namespace burnish::sdxl_train_test
