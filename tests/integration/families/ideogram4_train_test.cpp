// What of Ideogram 4 other families have not: a second transformer that is drawn with, captions that are JSON, files in FP8 with a scale
// for each row, its names.
#include <gmock/gmock.h>

#include "io/json.h"
#include "models/families/ideogram4/keys.h"
#include "tests/coded_files.h"
#include "tests/integration/families/ideogram4.h"
#include "tests/integration/model_run.h"

namespace burnish::ideogram4_train_test {
using namespace burnish::test;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kAdapter = quoted(kIdeogram4 / "lora.safetensors") + " ";
const std::string kGuided = "--cfg_scale 2.5 ";

class Ideogram4Run : public ModelRun {
 protected:
  Ideogram4Run() : ModelRun(ideogram4_model()) {}
  static io::NamedTensors tensors(const char* folder, const char* stem = "diffusion_pytorch_model") {
    auto source = io::TensorSource::open_folder(kIdeogram4 / "model" / folder, {stem});
    io::NamedTensors all;
    for (const auto& name : source.names()) all.emplace_back(name, source.tensor(name));
    return all;
  }
  static io::NamedTensors original(const char* folder) { return models::ideogram4::original_keys().to_file(tensors(folder)); }
  /// The words that name the parts of the small model but for its transformers.
  static std::string other_parts() {
    std::string words = "--tokenizer_path " + quoted(kIdeogram4 / "model/tokenizer") + " --dtype fp32 ";
    for (const char* part : {"text_encoder", "vae"}) words += "--model " + quoted(kIdeogram4 / "model" / part) + " ";
    return words;
  }
};

}  // namespace

TEST_F(Ideogram4Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  // With the layer that embeds texts trained, and with its results kept.
  expect_captions_batched({"--lora_rank 4 --lora_target_modules llm_cond_proj,qkv ", "--lora_rank 4 "});
}

TEST_F(Ideogram4Run, PartsThatDoNotTrainLeaveMemoryAndTheOtherTransformerIsNeverThere) {
  const auto blocks = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  auto said = train("ahead", blocks + "--precompute_timesteps on");
  EXPECT_THAT(said, AllOf(HasSubstr("in memory while training: dit.body, "), Not(HasSubstr("unconditional_transformer."))));
  expect_same("live", "ahead");
  EXPECT_THAT(train("text", "--lora_rank 4 --lora_target_modules llm_cond_proj --cache_path " + quoted(at("cache"))),
              HasSubstr("dit.text"));
}

TEST_F(Ideogram4Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(ideogram4_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(ideogram4_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_layers_1_attention_qkv.lora_down.weight"),
                                    {"comfyui", "diffusion_model.layers.0.attention.o.lora_A.weight"},
                                    {"diffsynth", "layers.2.feed_forward.w2.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_layers_0_attention_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kIdeogram4 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(ideogram4_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
  auto behind = [](const char* prefix) {
    return [prefix](const std::string& layer, bool is_down) { return prefix + layer + (is_down ? ".lora_A.weight" : ".lora_B.weight"); };
  };
  for (const char* prefix : {"conditional_transformer.", "diffusion_model.", "base_model.model."}) {
    rename_lora(kIdeogram4 / "lora.safetensors", at("renamed.safetensors"), behind(prefix));
    EXPECT_LE(relative_error(latents(ideogram4_model(), "--lora " + quoted(at("renamed.safetensors"))), expected), 1e-6) << prefix;
  }
}

TEST_F(Ideogram4Run, OriginalLayersTrainByTheirNames) {
  EXPECT_THAT(train("default", "--lora_rank 4 "), HasSubstr("on 21 layers")) << "seven of each of three";
  EXPECT_THAT(train("original", "--lora_rank 4 --lora_target_modules qkv,o,w1,w2,w3"), HasSubstr("on 21 layers"));
}

TEST_F(Ideogram4Run, FilesInOriginalNamesAreTheSameModel) {
  const auto expected = latents(ideogram4_model(), kGuided);
  io::save_safetensors(at("ideogram4.safetensors"), original("transformer"));
  io::save_safetensors(at("ideogram4_uncond.safetensors"), original("unconditional_transformer"));
  const auto conditional = "--model " + quoted(at("ideogram4.safetensors")) + " ",
             unconditional = "--model " + quoted(at("ideogram4_uncond.safetensors")) + " ";
  EXPECT_LE(relative_error(latents(conditional + unconditional + other_parts(), kGuided), expected), tolerance(1e-5));
  EXPECT_LE(relative_error(latents(unconditional + conditional + other_parts(), kGuided), expected), tolerance(1e-5))
      << "a name says which of the two it is";
  EXPECT_THAT(run_ok("inspect " + quoted(at("ideogram4_uncond.safetensors"))),
              HasSubstr("Ideogram 4 transformer without a text (3 layers, width 32, original names)"));
}

TEST_F(Ideogram4Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kIdeogram4 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Ideogram 4"));
  auto written = io::TensorSource::open({at("single.safetensors").string()});
  for (const char* name :
       {"model.diffusion_model.layers.0.attention.qkv.weight", "model.unconditional_diffusion_model.layers.0.attention.o.weight"})
    EXPECT_TRUE(written.contains(name)) << name;
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(ideogram4_model(at("back")), kGuided), latents(ideogram4_model(), kGuided)));
}

/// As they are published: a number in E4M3 for each weight of a linear layer, and a scale for each of its rows.
TEST_F(Ideogram4Run, FilesInFp8WithAScaleForEachRowAreReadAndTrainedOver) {
  fs::copy(kIdeogram4 / "model", at("fp8"), fs::copy_options::recursive);
  fs::copy(kIdeogram4 / "model", at("plain"), fs::copy_options::recursive);
  io::NamedTensors codes, plain;
  for (const auto& [name, tensor] : original("transformer")) {
    bool is_linear = name.ends_with(".weight") && tensor.dim() == 2 && name != "embed_image_indicator.weight";
    if (!is_linear) {
      codes.emplace_back(name, tensor);
      plain.emplace_back(name, tensor);
      continue;
    }
    auto wide = tensor.to(at::kFloat), scale = wide.abs().amax(1) / 448;
    auto rounded = (wide / scale.unsqueeze(1)).to(at::kFloat8_e4m3fn);
    codes.emplace_back(name, rounded);
    codes.emplace_back(name + "_scale", scale);
    plain.emplace_back(name, rounded.to(at::kFloat) * scale.unsqueeze(1));
  }
  const std::string file = "transformer/diffusion_pytorch_model.safetensors";
  io::save_safetensors(at("fp8") / file, codes);
  io::save_safetensors(at("plain") / file, plain);
  const auto expected = latents(ideogram4_model(at("plain")), "");
  EXPECT_LE(relative_error(latents(ideogram4_model(at("fp8")), ""), expected), tolerance(1e-5));
  EXPECT_GT(relative_error(latents(ideogram4_model(), ""), expected), 1e-3) << "eight bits are less";
  auto run = [&](const char* name) {
    return run_ok("train " + ideogram4_model(at(name)) + golden_data() + "--lora_rank 4 --max_steps 3 --output_path " +
                  quoted(at("run") / name));
  };
  EXPECT_THAT(run("fp8"), HasSubstr("21 layers, 68 % of it, in FP8 (E4M3) as in the file"));
  run("plain");
  auto in_codes = of_log("run/fp8", "loss"), in_fp32 = of_log("run/plain", "loss");
  ASSERT_EQ(in_codes.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(in_codes[i], in_fp32[i], tolerance(1e-5) * in_fp32[i]) << i;
}

/// As they are published: NF4 of bitsandbytes; and as ComfyUI-GGUF has models.
TEST_F(Ideogram4Run, FilesInFourBitsAndOfGgufAreReadAndTrainedOver) {
  auto is_linear = [](const std::string& name, const at::Tensor& tensor) {
    return name.ends_with(".weight") && tensor.dim() == 2 && name.starts_with("layers.") && tensor.size(1) % 32 == 0;
  };
  io::save_safetensors(at("nf4.safetensors"), in_nf4(original("transformer"), is_linear));
  save_gguf(at("q8.gguf"), original("transformer"), is_linear);
  for (const auto& [file, kind] : {std::pair("nf4.safetensors", "NF4"), {"q8.gguf", "Q8_0"}}) {
    SCOPED_TRACE(file);
    const auto plain = at(std::string(file) + ".plain.safetensors");
    io::save_safetensors(plain, numbers_in(at(file)));
    auto model = [&](const fs::path& path) { return "--model " + quoted(path) + " " + other_parts(); };
    EXPECT_THAT(run_ok("inspect " + quoted(at(file))), AllOf(HasSubstr("Ideogram 4 transformer"), HasSubstr(kind)));
    const auto expected = latents(model(plain), "");
    EXPECT_LE(relative_error(latents(model(at(file)), ""), expected), tolerance(1e-5));
    EXPECT_GT(relative_error(latents(ideogram4_model(), ""), expected), 1e-4) << "fewer bits are less";
    auto run = [&](const fs::path& path, const char* to, const std::string& options = "") {
      return run_ok("train " + model(path) + golden_data() + options + "--lora_rank 4 --max_steps 3 --output_path " + quoted(at(to)));
    };
    EXPECT_THAT(run(at(file), "coded", "--overwrite "), HasSubstr(std::string("in ") + kind + " as in the file"));
    run(plain, "plain", "--overwrite ");
    auto in_codes = of_log("coded", "loss"), in_fp32 = of_log("plain", "loss");
    ASSERT_EQ(in_codes.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(in_codes[i], in_fp32[i], tolerance(1e-5) * in_fp32[i]) << i;
    // Numbers again, in another file; and with a LoRA merged.
    const auto numbers = at(std::string(kind) + ".safetensors");
    run_ok("convert " + quoted(at(file)) + " " + quoted(numbers) + " --weight_format none --dtype fp32");
    EXPECT_LE(relative_error(latents(model(numbers), ""), expected), tolerance(1e-5));
    EXPECT_LE(relative_error(latents(model(at(file)), "--lora " + kAdapter), latents(model(plain), "--lora " + kAdapter)), 0.01);
  }
}

TEST_F(Ideogram4Run, GuidanceLeadsAwayFromTheOtherTransformerAndNotFromPrompts) {
  const auto guided = latents(ideogram4_model(), kGuided);
  EXPECT_GT(relative_error(guided, latents(ideogram4_model(), "")), 1e-3);
  auto outcome =
      run_burnish("sample " + ideogram4_model() + kGuided + "--prompt cat --negative_prompt dog --output_path " + quoted(at("none")));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("the negative prompt 'dog' is of no use"));
  // Two steps have one last step, at 3 where 7 is asked for.
  const auto polished = latents(ideogram4_model(), "--cfg_scale 7 ");
  EXPECT_GT(relative_error(polished, latents(ideogram4_model(), "--cfg_scale 7 --last_cfg_scale 0 ")), 1e-3);
  EXPECT_TRUE(at::equal(polished, latents(ideogram4_model(), "--cfg_scale 7 --last_cfg_scale 3 ")));

  // Without it the model draws unguided as ever, and guided away from itself without a text.
  const auto alone = "--model " + quoted(kIdeogram4 / "model/transformer") + " " + other_parts();
  EXPECT_TRUE(at::equal(latents(alone, ""), latents(ideogram4_model(), "")));
  const auto by_itself = latents(alone, kGuided);
  EXPECT_GT(relative_error(by_itself, guided), 1e-3);
  EXPECT_THAT(run_ok("sample " + alone + kGuided + "--prompt cat --height 48 --width 64 --num_inference_steps 2 --output_path " +
                     quoted(at("alone"))),
              HasSubstr("the files have no unconditional_transformer; name it with a further --model"));
}

TEST_F(Ideogram4Run, ATeacherIsNotGuided) {
  const std::string steps = "--task trajectory_imitation --lora_rank 4 --student_num_inference_steps 2 --teacher_num_inference_steps 4 ";
  auto guided = run_burnish(train_command("guided", steps + "--teacher_cfg_scale 2"));
  EXPECT_EQ(guided.exit_code, 2);
  EXPECT_THAT(guided.output, HasSubstr("teacher_cfg_scale is 2, and guidance of this model leads away from what training does not run"));
  train("plain", steps + "--teacher_cfg_scale 1");
}

TEST_F(Ideogram4Run, CaptionsThatAreNotWhatItWasTrainedWithAreToldOnce) {
  const std::string told = "a caption is plain text, and Ideogram 4 was trained with captions that are JSON";
  auto said = train("plain", "--lora_rank 4");
  EXPECT_THAT(said, HasSubstr(told));
  EXPECT_EQ(said.find(told), said.rfind(told)) << "of four captions";
  nlohmann::json row;
  row["image"] = (kGolden / "pictures/0.png").string();
  row["prompt"] = R"({"high_level_description":"a cat","compositional_deconstruction":{"background":"tree","elements":[]}})";
  auto data = write("data.jsonl", row.dump() + "\n");
  EXPECT_THAT(train("json", "--lora_rank 4 --dataset_metadata_path " + quoted(data)), Not(HasSubstr("Ideogram 4 was trained with")));
}

TEST_F(Ideogram4Run, PreviewsAreGuidedByTheOtherTransformer) {
  auto prompts = write("prompts.txt", "red apple --l 2.5 --s 2 --w 64 --h 48 --d 3\n");
  auto said = train("run", "--lora_rank 4 --preview_prompts " + quoted(prompts) + " --preview_steps 3");
  EXPECT_THAT(said, Not(HasSubstr("unconditional_transformer.")));
  EXPECT_TRUE(fs::exists(at("run") / "samples/step-000003/00.png"));
}

TEST_F(Ideogram4Run, TheOtherTransformerTrainsByItselfUnderNamesOfItsOwn) {
  const std::string away = "--lora_rank 4 --lora_base_model unconditional_transformer ";
  auto said = train("away", away + "--max_steps 20 --learning_rate 1e-2 --dataset_repeat 10");
  EXPECT_THAT(said, AllOf(HasSubstr("on 21 layers of unconditional_transformer"), HasSubstr("unconditional_transformer.body"),
                          Not(HasSubstr("dit.body")), Not(HasSubstr("ComfyUI"))));
  EXPECT_THAT(said.substr(said.find("4 samples")), Not(HasSubstr("text_encoder"))) << "it reads no text";
  const auto file = at("away") / "step-20.safetensors";
  for (const auto& name : io::TensorSource::open({file.string()}).names())
    EXPECT_TRUE(name.starts_with("unconditional_transformer.layers.")) << name;

  // It goes where it was trained: what is not guided never runs it.
  const auto lora = "--lora " + quoted(file) + " ", both = lora + "--lora " + kAdapter;
  EXPECT_TRUE(at::equal(latents(ideogram4_model(), lora), latents(ideogram4_model(), "")));
  const auto guided = latents(ideogram4_model(), kGuided + lora);
  EXPECT_GT(relative_error(guided, latents(ideogram4_model(), kGuided)), 1e-3);
  run_ok("convert " + quoted(kIdeogram4 / "model") + " " + quoted(at("merged")) + " --dtype fp32 " + both);
  EXPECT_LE(relative_error(latents(ideogram4_model(at("merged")), kGuided), latents(ideogram4_model(), kGuided + both)), tolerance(1e-5));

  // It goes on from its file, and previews show what guidance by it does.
  auto prompts = write("prompts.txt", "red apple --l 2.5 --s 2 --w 64 --h 48 --d 3\n");
  said = train("on", "--lora_checkpoint " + quoted(file) + " --preview_prompts " + quoted(prompts) + " --preview_steps 3");
  EXPECT_THAT(said, AllOf(HasSubstr("on 21 layers of unconditional_transformer"), Not(HasSubstr("dit.body"))));
  EXPECT_TRUE(fs::exists(at("on") / "samples/step-000003/00.png"));
  train("whole", "--trainable_models unconditional_transformer");
  EXPECT_TRUE(fs::exists(at("whole") / "step-3.unconditional_transformer.safetensors"));
}

TEST_F(Ideogram4Run, WhatGuidanceLeadsAwayFromTrainsInARunOfItsOwn) {
  auto both = run_burnish(train_command("both", "--lora_rank 4 --lora_base_model dit,unconditional_transformer"));
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.output, HasSubstr("unconditional_transformer predicts what guidance leads away from and has a loss of its own; train it "
                                     "and dit in two runs"));
  train("away", "--lora_rank 4 --lora_base_model unconditional_transformer");
  auto comfy = run_burnish("convert " + quoted(at("away") / "step-3.safetensors") + " " + quoted(at("comfy.safetensors")) +
                           " --lora_format comfyui --model " + quoted(kIdeogram4 / "model"));
  EXPECT_EQ(comfy.exit_code, 2) << "names that dit has there";
  EXPECT_THAT(comfy.output, HasSubstr("the format comfyui has no names for the layers of the unconditional_transformer"));
}

}  // namespace burnish::ideogram4_train_test
