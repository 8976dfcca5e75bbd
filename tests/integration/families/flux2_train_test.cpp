// What of FLUX.2 klein other families have not: one modulation for all blocks, padding that is read, its files' other names, and reference
// pictures.
#include <gmock/gmock.h>

#include "models/families/flux2/keys.h"
#include "tests/integration/families/flux2.h"
#include "tests/integration/model_run.h"

namespace burnish::flux2_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

class Flux2Run : public ModelRun {
 protected:
  Flux2Run() : ModelRun(flux2_model() + "--max_sequence_length 48 ") {}
};

}  // namespace

TEST_F(Flux2Run, BatchesEqualTheirSamplesOneByOne) {
  const std::string rows =
      "image,prompt\n0.png,cat\n1.png,tree of the north and a cat face and a red apple on the tree\n2.png,\n3.png,cat\n";
  auto data = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(write("data.csv", rows)) +
              " --lora_rank 4 ";
  train("together", data + "--batch_size 4");
  train("apart", data + "--gradient_accumulation_steps 4");
  auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
  ASSERT_EQ(together.size(), 3u);
  for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
}

TEST_F(Flux2Run, TheModulationLeavesMemoryUnlessItTrains) {
  const auto cached = " --cache_path " + quoted(at("cache")) + " ";
  for (const std::string trained : {"--lora_rank 4 ", "--lora_rank 4 --lora_type dora --fp8_models dit --dtype bf16 "}) {
    train("live", trained + cached + "--overwrite --precompute_timesteps off");
    auto ahead = train("ahead", trained + cached + "--overwrite --precompute_timesteps on");
    EXPECT_THAT(ahead, HasSubstr("in memory while training: dit.body, "));
    expect_same("live", "ahead");
  }
  auto refused = run_burnish(train_command(
      "refused", "--lora_rank 4 --lora_target_modules single_stream_modulation.linear,to_q " + cached + "--precompute_timesteps on"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("finds nothing to compute ahead"));
}

TEST_F(Flux2Run, BlocksBeforeTheFirstThatTrainsLeaveMemory) {
  for (const std::string layers : {"transformer_blocks\\.1\\.attn\\.to_q", "single_transformer_blocks\\.[02]\\..*", "proj_out"}) {
    auto trained = "--overwrite --lora_rank 4 --lora_target_modules '" + layers + "' --cache_path " + quoted(at("cache")) + " ";
    train("live", trained + "--precompute_timesteps off");
    auto ahead = train("ahead", trained + "--precompute_timesteps blocks");
    EXPECT_THAT(ahead, HasSubstr("in memory while training: dit.last_blocks, ")) << layers;
    expect_same("live", "ahead");
  }
  auto refused = run_burnish(train_command("refused", "--lora_rank 4 --lora_target_modules single_stream_modulation.linear --cache_path " +
                                                          quoted(at("cache")) + " --precompute_timesteps blocks"));
  EXPECT_THAT(refused.output, HasSubstr("finds no frozen blocks to compute ahead"));
}

TEST_F(Flux2Run, NamesOfOtherProgramsMeanTheSameLayers) {
  const auto lora = kFlux2 / "lora.safetensors";
  auto expected = latents(flux2_model(), "--lora " + quoted(lora));
  EXPECT_GT(relative_error(latents(flux2_model(), ""), expected), 1e-3);
  auto half = [](bool down, const char* a, const char* b) { return std::string(down ? a : b); };
  rename_lora(lora, at("diffsynth.safetensors"),
              [&](const std::string& layer, bool down) { return layer + half(down, ".lora_A.default.weight", ".lora_B.default.weight"); });
  rename_lora(lora, at("paths.safetensors"), [&](const std::string& layer, bool down) {
    return "diffusion_model." + layer + half(down, ".lora_A.weight", ".lora_B.weight");
  });
  for (const char* name : {"diffsynth.safetensors", "paths.safetensors"})
    EXPECT_LE(relative_error(latents(flux2_model(), "--lora " + quoted(at(name))), expected), tolerance(1e-6)) << name;
  // Written in their names, of which one may stand for three layers, and read again.
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_single_blocks_2_linear1.lora_down.weight"),
                                    {"comfyui", "diffusion_model.double_blocks.1.img_attn.qkv.lora_A.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + quoted(lora) + " " + quoted(file) + " --lora_format " + format + " --model " + quoted(kFlux2 / "model"));
    auto source = io::TensorSource::open({file.string()});
    EXPECT_TRUE(source.contains(key)) << format;
    // diffusers refuses a file in ComfyUI's names that holds one.
    auto is_alpha = [](const std::string& name) { return name.ends_with(".alpha"); };
    EXPECT_EQ(std::ranges::any_of(source.names(), is_alpha), format == std::string("kohya")) << format;
    EXPECT_LE(relative_error(latents(flux2_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
}

TEST_F(Flux2Run, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto of = [](const char* folder, const char* stem) { return io::TensorSource::open_folder(kFlux2 / "model" / folder, {stem}); };
  auto transformer = of("transformer", "diffusion_pytorch_model"), text = of("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  for (auto& [name, tensor] : models::flux2::original_keys().to_file(ours)) all.emplace_back("model.diffusion_model." + name, tensor);
  for (const auto& name : text.names()) all.emplace_back("text_encoders.qwen3_4b.transformer." + name, text.tensor(name));
  io::save_safetensors(at("single.safetensors"), all);
  // The norm groups of the small autoencoder are in its config.json alone.
  auto single = "--model " + quoted(at("single.safetensors")) + " --model " + quoted(kFlux2 / "model/vae") + " --tokenizer_path " +
                quoted(kFlux2 / "model/tokenizer") + " --dtype fp32 ";
  EXPECT_LE(relative_error(latents(single, ""), latents(flux2_model(), "")), tolerance(1e-5));
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("FLUX.2 klein transformer (2 double and 3 single blocks, width 32, original names) + Qwen3 text encoder"));
}

TEST_F(Flux2Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kFlux2 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("FLUX.2-klein"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(flux2_model(at("back")), ""), latents(flux2_model(), "")));
}

TEST_F(Flux2Run, PicturesThatAreEditedTrainBesideOthers) {
  auto picture = [](const char* name) { return golden_path(std::string("references/") + name); };
  std::string rows;
  for (int i = 0; i < 4; ++i) {
    nlohmann::json row{{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()}, {"prompt", "cat"}};
    if (i == 1) row["edit_image"] = picture("a.png");
    if (i == 2) row["edit_image"] = {picture("b.png"), picture("a.png")};
    rows += row.dump() + "\n";
  }
  auto data = "--dataset_metadata_path " + quoted(write("data.jsonl", rows)) + " --extra_inputs edit_image --lora_rank 4 ";
  train("one", data);
  train("cached", data + "--task sft:data_process");
  run_ok("train " + flux2_model() + "--learning_rate 1e-3 --max_steps 3 --dataset_base_path " + quoted(at("cached")) +
         " --extra_inputs edit_image --lora_rank 4 --task sft:train --output_path " + quoted(at("split")));
  expect_same("one", "split");
}

TEST_F(Flux2Run, CaptionsAreCutAtTheirLimitAndThatIsSaid) {
  const std::string rows = "image,prompt\n0.png,tree of the north and a cat face and a red apple on the tree and a cat on it\n";
  auto data = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(write("data.csv", rows)) +
              " --lora_rank 2 --max_steps 1 --max_sequence_length ";
  EXPECT_THAT(train("cut", data + "24"), HasSubstr("1 of 1 captions have more than the 24 tokens that text_encoder reads"));
  EXPECT_THAT(train("whole", data + "96"), testing::Not(HasSubstr("tokens that text_encoder reads")));
  EXPECT_NE(of_log("cut", "loss"), of_log("whole", "loss"));
}

TEST_F(Flux2Run, AnotherModelsPartsAreRefused) {
  auto with = [&](const std::string& part, const std::string& other) {
    std::string models;
    for (const std::string name : {"transformer", "text_encoder", "vae"})
      models += "--model " + quoted(name == part ? fs::path(golden_path(other)) : kFlux2 / "model" / name) + " ";
    return "train " + models + "--tokenizer_path " + quoted(kFlux2 / "model/tokenizer") + " " + golden_data() +
           "--lora_rank 2 --output_path " + quoted(out());
  };
  refused(3, with("text_encoder", "zimage_pipeline/model/text_encoder"),
          {"the text encoder has 3 layers, and the states behind 27 of them are read"});
  refused(3, with("transformer", "zimage_pipeline/model/transformer"),
          {"the transformer takes 16 latent channels and the autoencoder makes 8"});
}

}  // namespace burnish::flux2_train_test
