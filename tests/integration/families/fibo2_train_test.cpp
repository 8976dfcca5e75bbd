// What of FIBO 2 other families have not: texts that become gists of several lengths, blocks that read texts beside them, captions that are
// JSON; its names, single files, what it refuses.
#include <gmock/gmock.h>

#include "io/json.h"
#include "tests/integration/families/fibo2.h"
#include "tests/integration/model_run.h"

namespace burnish::fibo2_train_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapter = quoted(kFibo2 / "lora.safetensors") + " ";

class Fibo2Run : public ModelRun {
 protected:
  Fibo2Run() : ModelRun(fibo2_model()) {}
};

/// A caption of more than 256 tokens, whose gist is longer.
std::string long_caption() {
  nlohmann::ordered_json caption;
  caption["short_description"] = "a red apple";
  for (int i = 0; i < 12; ++i) caption["objects"].push_back({{"description", "a cat face, smiling"}, {"location", "on the tree"}});
  return caption.dump();
}

}  // namespace

TEST_F(Fibo2Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows;
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json row{{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()},
                             {"prompt", i % 2 ? long_caption() : "cat"}};
    rows += row.dump() + "\n";
  }
  const auto data = "--dataset_metadata_path " + quoted(write("data.jsonl", rows)) + " ";
  // With what makes the gist trained, and with the gist kept.
  for (const std::string options : {"--lora_rank 4 ", "--lora_rank 4 --lora_target_modules 'layers\\..*to_[qv]' "}) {
    train("together", data + options + "--overwrite --batch_size 4");
    train("apart", data + options + "--overwrite --gradient_accumulation_steps 4");
    const auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
    ASSERT_EQ(together.size(), 3u);
    for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
  }
}

TEST_F(Fibo2Run, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --lora_target_modules '^(layers|noise_refiner)\\..*to_[qv]' --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  const auto gist = "--lora_rank 4 --lora_target_modules 'perceiver\\..*' --cache_path " + quoted(at("cache")) + " ";
  EXPECT_THAT(train("gist", gist + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.text, dit.body, "));
}

TEST_F(Fibo2Run, BlocksBeforeTheFirstThatTrainsAreComputedAhead) {
  for (const std::string layers : {"noise_refiner\\.1\\..*", "^layers\\.[13]\\..*to_q", "final_layer\\.linear"}) {
    auto options = "--lora_rank 4 --overwrite --lora_target_modules '" + layers + "' --cache_path " + quoted(at("cache")) + " ";
    train("live", options + "--precompute_timesteps off");
    EXPECT_THAT(train("ahead", options + "--precompute_timesteps blocks"), HasSubstr("in memory while training: dit.last_blocks, "));
    expect_same("live", "ahead");
  }
}

/// What makes the gist runs once for each text of a batch. Of the other layers no lever changes a bit, with reference pictures too.
TEST_F(Fibo2Run, WhatSavesMemoryLeavesTheLayersAsTheyAre) {
  const std::string layers = "--lora_rank 4 --batch_size 2 --num_threads 1 --lora_target_modules '^(layers|noise_refiner)\\..*' ";
  for (const auto& more : {std::string(), "--extra_inputs edit_image " + fibo2_edit_data()}) {
    train("plain", layers + more + "--overwrite");
    for (const char* lever : {"--use_gradient_checkpointing ", "--use_gradient_checkpointing_offload --fused_backward_pass ",
                              "--enable_optimizer_cpu_offload --blocks_to_swap 3 "}) {
      train("lever", layers + more + lever + "--overwrite");
      expect_same("plain", "lever");
    }
  }
}

TEST_F(Fibo2Run, AttentionsAndMlpsTrainUnlessOtherwiseAsked) {
  // Seven layers of each of six blocks, four of two more attentions, and eleven of each of two layers that make the gist.
  EXPECT_THAT(train("default", "--lora_rank 4 "), HasSubstr("on 72 layers"));
}

TEST_F(Fibo2Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(fibo2_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(fibo2_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_layers_1_cross_attention_to_q.lora_down.weight"),
                                    {"comfyui", "diffusion_model.noise_refiner.0.attention.to_out.0.lora_A.weight"},
                                    {"diffsynth", "perceiver.layers.1.ffn.w2.lora_A.default.weight"},
                                    {"diffusers", "transformer.layers.3.feed_forward.w1.lora_A.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kFibo2 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(fibo2_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(Fibo2Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kFibo2 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("FIBO 2"));
  auto written = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name :
       {"model.diffusion_model.perceiver.latent_queries", "text_encoders.qwen3vl_4b.transformer.model.layers.0.self_attn.q_proj.weight"})
    EXPECT_TRUE(written.contains(name)) << name;
  EXPECT_THAT(run_ok("inspect " + single), HasSubstr("FIBO 2 transformer (4 layers, width 32) + Qwen3-VL text encoder"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(fibo2_model(at("back")), ""), latents(fibo2_model(), "")));
}

TEST_F(Fibo2Run, AStageThatOnlyEncodesNeedsNoTransformer) {
  std::string parts = "--dtype fp32 --tokenizer_path " + quoted(kFibo2 / "model/processor") + " ";
  for (const char* part : {"text_encoder", "vae"}) parts += "--model " + quoted(kFibo2 / "model" / part) + " ";
  EXPECT_THAT(run_ok("inspect " + quoted(kFibo2 / "model")), HasSubstr("FIBO 2 transformer (4 layers, width 32)"));
  const auto said = run_ok("train " + parts + "--task sft:data_process --dataset_metadata_path " +
                           quoted(kGolden / "pictures/metadata.csv") + " --height 48 --width 64 --output_path " + quoted(at("encoded")));
  EXPECT_THAT(said, HasSubstr("FIBO 2"));
}

TEST_F(Fibo2Run, PartsAreNamedAsDiffSynthStudioNamesThem) {
  const auto model = at("models/briaai/Fibo-2.0-dev");
  fs::create_directories(model.parent_path());
  fs::copy(kFibo2 / "model", model, fs::copy_options::recursive);
  fs::remove(model / "model_index.json");
  const std::string id = "briaai/Fibo-2.0-dev:";
  const auto said =
      run_ok("train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
                 quoted(kGolden / "pictures/metadata.csv") + " --max_pixels 1048576 --model_id_with_origin_paths \"" + id +
                 "transformer/*.safetensors," + id + "text_encoder/*.safetensors," + id +
                 "vae/*.safetensors\" --learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --output_path " +
                 quoted(at("run")) + " --lora_base_model \"dit\" --lora_target_modules \"to_q,to_k,to_v\" --lora_rank 32",
             "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  EXPECT_THAT(said, HasSubstr("on 36 layers"));
}

TEST_F(Fibo2Run, EmptyCaptionsAreWhatGuidanceLeadsAwayFrom) {
  const auto guided = latents(fibo2_model(), "--cfg_scale 2.5 ");
  const std::string empty = R"('{"short_description":"","objects":[],"lighting":{}}' )";
  EXPECT_TRUE(at::equal(latents(fibo2_model(), "--cfg_scale 2.5 --negative_prompt " + empty), guided));
  EXPECT_GT(relative_error(latents(fibo2_model(), "--cfg_scale 2.5 --negative_prompt cat "), guided), 1e-3);
}

TEST_F(Fibo2Run, ACaptionBesideAPictureSaysWhatIsToBeChanged) {
  const auto picture = "--reference " + quoted(fs::path(golden_path("references/b.png"))) + " --height 48 --width 64 --output_path " +
                       quoted(at("none")) + " --num_inference_steps 1 --prompt ";
  auto refused = run_burnish("sample " + fibo2_model() + picture + R"('{"short_description": "a cat"}')");
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.output, HasSubstr("a prompt beside a reference picture is JSON without edit_instruction"));
  run_ok("sample " + fibo2_model() + picture + R"('{"short_description": "a cat", "edit_instruction": "add a cat"}')");
}

TEST_F(Fibo2Run, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = io::TensorSource::open_folder(kFibo2 / "model/text_encoder", {"model"});
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  int num_changed = 0;
  for (const auto& name : source.names()) {
    if (name.find(".visual.") != name.npos) continue;
    ASSERT_TRUE(written.contains(name)) << name;
    num_changed += at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)) ? 0 : 1;
  }
  EXPECT_GT(num_changed, 200);
}

TEST_F(Fibo2Run, PreviewsAreDrawnWhileItTrains) {
  auto prompts = write("prompts.txt", "red apple --l 2.5 --s 2 --w 64 --h 48 --d 3\n");
  train("run", "--lora_rank 4 --preview_prompts " + quoted(prompts) + " --preview_steps 3");
  EXPECT_TRUE(fs::exists(at("run") / "samples/step-000003/00.png"));
}

TEST_F(Fibo2Run, ATextEncoderThatIsTooShallowIsRefused) {
  fs::copy(kFibo2 / "model", at("shallow"), fs::copy_options::recursive);
  const auto file = at("shallow") / "text_encoder/model.safetensors";
  auto source = io::TensorSource::open({(kFibo2 / "model/text_encoder/model.safetensors").string()});
  io::NamedTensors kept;
  for (const auto& name : source.names()) {
    if (name.find("layers.3") == name.npos) kept.emplace_back(name, source.tensor(name));
  }
  fs::remove(file);
  io::save_safetensors(file, kept);
  fs::remove(at("shallow") / "text_encoder/config.json");
  auto refused = run_burnish("sample " + fibo2_model(at("shallow")) + "--prompt cat --output_path " + quoted(at("none")));
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.output, HasSubstr("it is not the one of FIBO 2"));
}

}  // namespace burnish::fibo2_train_test
