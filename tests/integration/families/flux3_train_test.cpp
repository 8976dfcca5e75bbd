// What of FLUX.3 klein other families have not: windows of text that are read whole, a stream for references, a model that is told where a
// step leads, a folder of a modular pipeline, and its names.
#include <gmock/gmock.h>

#include <cmath>

#include "models/families/flux3/keys.h"
#include "tests/integration/families/flux3.h"
#include "tests/integration/model_run.h"

namespace burnish::flux3_train_test {
using namespace burnish::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const std::string kLong =
    "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat and a smiling apple "
    "and a red face of a cat";
const std::string kAdapter = quoted(kFlux3 / "lora.safetensors") + " ";

class Flux3Run : public ModelRun {
 protected:
  Flux3Run() : ModelRun(flux3_model()) {}

  /// Options for rows with no reference picture, with one and with two.
  std::string edited() const {
    auto picture = [](const char* name) { return golden_path(std::string("references/") + name); };
    std::string rows;
    for (int i = 0; i < 4; ++i) {
      nlohmann::json row{{"image", (kGolden / "pictures" / (std::to_string(i) + ".png")).string()}, {"prompt", "cat"}};
      if (i == 1) row["edit_image"] = picture("a.png");
      if (i == 2) row["edit_image"] = {picture("b.png"), picture("a.png")};
      rows += row.dump() + "\n";
    }
    return "--dataset_metadata_path " + quoted(write("data.jsonl", rows)) + " --extra_inputs edit_image ";
  }
};

}  // namespace

TEST_F(Flux3Run, BatchesOfTextsOfUnequalWindowsEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "cat") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " ";
  // With the layer that embeds texts trained, and with its results kept.
  for (const std::string options : {"--lora_rank 4 ", "--lora_rank 4 --lora_target_modules context_embedder,to_q "}) {
    train("together", data + options + "--overwrite --batch_size 4");
    train("apart", data + options + "--overwrite --gradient_accumulation_steps 4");
    auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
    ASSERT_EQ(together.size(), 3u);
    for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
  }
}

TEST_F(Flux3Run, PairsOfABatchHaveTextsOfUnequalLengthBesideTheModelBeforeTraining) {
  const auto data = write("pairs.csv", "image,rejected_image,prompt\n0.png,1.png,cat\n2.png,3.png," + kLong + "\n");
  auto pairs = "--task dpo --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(data) + " ";
  train("together", pairs + "--lora_rank 4 --batch_size 2");
  EXPECT_NEAR(of_log("together", "loss").front(), std::log(2.0), 1e-6) << "nothing is trained yet";
}

TEST_F(Flux3Run, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  auto text = "--lora_rank 4 --lora_target_modules context_embedder --cache_path " + quoted(at("cache")) + " ";
  EXPECT_THAT(train("text", text + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.text, dit.body, "));
}

/// As in torch, whose optimizers leave alone what has no gradient: neither momentum nor decay moves it.
TEST_F(Flux3Run, WhatIsForReferencesAloneIsNotSteppedByRowsWithoutAny) {
  run_ok(train_command("run", edited() + "--trainable_models dit --save_steps 1 --max_steps 8 --weight_decay 0.1"));
  auto weight = [&](int step, const std::string& name) {
    return io::SafetensorsFile::open(at("run") / ("step-" + std::to_string(step) + ".safetensors"))->tensor(name).clone();
  };
  int num_moved = 0;
  for (int step = 2; step <= 8; ++step) {
    auto moved = [&](const std::string& name) { return !at::equal(weight(step, name), weight(step - 1, name)); };
    const bool ran = moved("mode_blocks.image_cond.0.attn.to_q.weight");
    for (const char* name : {"early_stream_modulations.image_cond.linear.weight", "single_stream_modulations.image_cond.linear.weight"})
      EXPECT_EQ(moved(name), ran) << name << ", step " << step;
    EXPECT_TRUE(moved("early_stream_modulations.image.linear.weight")) << step;
    num_moved += ran;
  }
  EXPECT_GT(num_moved, 1);
  EXPECT_LT(num_moved, 7);
}

TEST_F(Flux3Run, BlocksBeforeTheFirstThatTrainsAreComputedAhead) {
  const auto cached = "--lora_rank 4 --overwrite --cache_path " + quoted(at("cache")) + " ";
  for (const std::string& data : {std::string(), edited()}) {
    // Right behind the blocks of streams by themselves, and behind all blocks.
    for (const std::string layers : {"single_transformer_blocks\\.0\\..*", "proj_out"}) {
      const auto options = cached + data + "--lora_target_modules '" + layers + "' ";
      train("live", options + "--precompute_timesteps off");
      EXPECT_THAT(train("ahead", options + "--precompute_timesteps blocks"), HasSubstr("in memory while training: dit.last_blocks, "));
      expect_same("live", "ahead");
    }
  }
  for (const std::string layers : {"mode_blocks\\.image\\.1\\.attn\\.to_q", "context_embedder", "single_stream_modulations.*"}) {
    auto refused = run_burnish(train_command("none", cached + "--precompute_timesteps blocks --lora_target_modules '" + layers + "'"));
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_THAT(refused.output, HasSubstr("precompute_timesteps blocks finds no frozen blocks to compute ahead")) << layers;
  }
}

TEST_F(Flux3Run, LayersOfReferencesHaveNoGradientWithoutThem) {
  EXPECT_THAT(train("whole", "--trainable_models dit"), Not(HasSubstr("no gradient")));
  auto source = io::TensorSource::open_folder(kFlux3 / "model/transformer", {"diffusion_pytorch_model"});
  auto written = io::TensorSource::open({(at("whole") / "step-3.safetensors").string()});
  for (const auto& name : source.names()) {
    bool is_read = name.find("image_cond") == name.npos;
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !is_read) << name;
  }
}

TEST_F(Flux3Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(flux3_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(flux3_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_single_blocks_1_q_proj.lora_down.weight"),
                                    {"comfyui", "diffusion_model.content_mode_blocks.image.0.attn_out.lora_A.weight"},
                                    {"diffsynth", "txt_mode_blocks.1.mlp_in.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_single_transformer_blocks_0_attn_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kFlux3 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(flux3_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
  for (const std::string format : {"diffusers", "comfyui"}) {
    auto file = at(format + ".again.safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kFlux3 / "model"));
    for (const auto& name : io::TensorSource::open({file.string()}).names())
      EXPECT_FALSE(name.ends_with(".alpha")) << name << " is refused by diffusers' loader";
  }
}

TEST_F(Flux3Run, AnAdapterOfTheLastNormHasItsHalvesInTheOrderOfEachProgram) {
  train("last", "--lora_rank 4 --lora_target_modules norm_out.linear,context_embedder,single_stream_modulations.txt.linear");
  auto lora = quoted(at("last") / "step-3.safetensors") + " ";
  auto expected = latents(flux3_model(), "--lora " + lora);
  EXPECT_GT(relative_error(latents(flux3_model(), ""), expected), 1e-5);
  for (const std::string format : {"kohya", "comfyui", "diffsynth"}) {
    auto file = at(format + ".safetensors");
    run_ok("convert " + lora + quoted(file) + " --lora_format " + format + " --model " + quoted(kFlux3 / "model"));
    EXPECT_LE(relative_error(latents(flux3_model(), "--lora " + quoted(file)), expected), tolerance(1e-6)) << format;
  }
}

TEST_F(Flux3Run, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto of = [](const char* folder, const char* stem) { return io::TensorSource::open_folder(kFlux3 / "model" / folder, {stem}); };
  auto transformer = of("transformer", "diffusion_pytorch_model"), text = of("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  auto original = models::flux3::original_keys().to_file(ours);
  original.emplace_back("repa_projectors.0.weight", at::ones({2, 32}));  // that only training ran
  io::save_safetensors(at("model.safetensors"), original);
  for (auto& [name, tensor] : original) all.emplace_back("model.diffusion_model." + name, tensor);
  for (const auto& name : text.names()) all.emplace_back("text_encoders.qwen3vl_4b.transformer." + name, text.tensor(name));
  io::save_safetensors(at("single.safetensors"), all);
  const auto expected = latents(flux3_model(), "");
  // Of two components the first named is taken.
  for (const char* file : {"model.safetensors", "single.safetensors"}) {
    auto single = "--model " + quoted(at(file)) + " --model " + quoted(kFlux3 / "model") + " --dtype fp32 ";
    EXPECT_LE(relative_error(latents(single, ""), expected), tolerance(1e-5)) << file;
  }
  EXPECT_THAT(
      run_ok("inspect " + quoted(at("single.safetensors"))),
      HasSubstr("FLUX.3 klein base transformer (2 blocks of a stream and 2 joint ones, width 32, original names) + Qwen3-VL text encoder"));
}

TEST_F(Flux3Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kFlux3 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("FLUX.3 klein base"));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(fs::exists(at("back") / "modular_model_index.json"));
  EXPECT_TRUE(at::equal(latents(flux3_model(at("back")), ""), latents(flux3_model(), "")));
}

TEST_F(Flux3Run, TheDistilledModelIsToldApart) {
  const auto distilled = make_distilled(at("distilled"));
  EXPECT_THAT(run_ok("inspect " + quoted(distilled)), HasSubstr("FLUX.3 klein transformer (2 blocks"));
  EXPECT_THAT(run_ok("inspect " + quoted(kFlux3 / "model")), HasSubstr("FLUX.3 klein base transformer (2 blocks"));
  EXPECT_THAT(run_ok("inspect " + quoted(kFlux3 / "model/text_encoder")), HasSubstr("Qwen3-VL text encoder"));
}

TEST_F(Flux3Run, PicturesThatAreEditedTrainBesideOthers) {
  auto data = edited() + "--lora_rank 4 ";
  train("one", data);
  train("cached", data + "--task sft:data_process");
  run_ok("train " + flux3_model() + "--learning_rate 1e-3 --max_steps 3 --dataset_base_path " + quoted(at("cached")) +
         " --extra_inputs edit_image --lora_rank 4 --task sft:train --output_path " + quoted(at("split")));
  expect_same("one", "split");
}

TEST_F(Flux3Run, MoreReferencesThanItsTrainingHadAreRefused) {
  const fs::path picture = golden_path("references/a.png");
  nlohmann::json row{{"image", (kGolden / "pictures/0.png").string()}, {"prompt", "cat"}};
  std::string references;
  for (int i = 0; i < 11; ++i) {
    row["edit_image"].push_back(picture.string());
    references += "--reference " + quoted(picture) + " ";
  }
  auto trained = run_burnish(train_command(
      "none", "--dataset_metadata_path " + quoted(write("data.jsonl", row.dump())) + " --extra_inputs edit_image --lora_rank 4"));
  EXPECT_EQ(trained.exit_code, 3);
  EXPECT_THAT(trained.output, HasSubstr("row 0 has in the column 'edit_image' 11 reference pictures, of which "));
  auto drawn = run_burnish("sample " + flux3_model() + "--prompt cat --output_path " + quoted(at("none")) + " " + references);
  EXPECT_EQ(drawn.exit_code, 2);
  EXPECT_THAT(drawn.output, HasSubstr("the prompt 'cat' has 11 reference pictures, of which "));
}

TEST_F(Flux3Run, ACommandInDiffSynthStudiosFormTrains) {
  const std::string id = "black-forest-labs/flux-3-image-klein-base";
  const auto folder = at("models") / id;
  for (const char* part : {"text_encoder", "vae"}) {
    fs::create_directories(folder);
    fs::copy(kFlux3 / "model" / part, folder / part, fs::copy_options::recursive);
  }
  auto transformer = io::TensorSource::open_folder(kFlux3 / "model/transformer", {"diffusion_pytorch_model"});
  io::NamedTensors ours;
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  io::save_safetensors(folder / "model.safetensors", models::flux3::original_keys().to_file(ours));
  auto outcome = run_burnish("train --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " +
                                 quoted(kGolden / "pictures/metadata.csv") + " --max_pixels 1048576 --dataset_repeat 1 " +
                                 "--model_id_with_origin_paths \"" + id + ":model.safetensors," + id + ":text_encoder/*.safetensors," + id +
                                 ":vae/diffusion_pytorch_model.safetensors\" --tokenizer_path \"" + id + ":text_encoder/\" " +
                                 "--learning_rate 1e-4 --num_epochs 1 --remove_prefix_in_ckpt \"pipe.dit.\" --lora_base_model \"dit\" " +
                                 "--lora_target_modules \"q_proj,k_proj,v_proj,attn_out,mlp_in,mlp_out\" --lora_rank 32 " +
                                 "--use_gradient_checkpointing --output_path " + quoted(at("out")),
                             "DIFFSYNTH_MODEL_BASE_PATH=" + quoted(at("models")));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("lora of rank 32, scale 1 on 48 layers"));
  EXPECT_TRUE(io::TensorSource::open({(at("out") / "step-4.safetensors").string()})
                  .contains("transformer.single_transformer_blocks.0.attn.to_q.lora_A.weight"));
}

TEST_F(Flux3Run, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = io::TensorSource::open_folder(kFlux3 / "model/text_encoder", {"model"});
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  int num_changed = 0;
  for (const auto& name : source.names()) {
    if (name.find("visual.") != name.npos) continue;
    ASSERT_TRUE(written.contains(name)) << name;
    bool is_read = name.find("layers.32.") == name.npos && name != "model.language_model.norm.weight";
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !is_read) << name;
    num_changed += is_read;
  }
  EXPECT_GT(num_changed, 300);
}

TEST_F(Flux3Run, CaptionsAreCutAtTheirLimitAndThatIsSaid) {
  const std::string rows = "image,prompt\n0.png," + kLong + "\n";
  auto data = "--dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(write("data.csv", rows)) +
              " --lora_rank 2 --max_steps 1 ";
  EXPECT_THAT(train("cut", data + "--max_sequence_length 24"),
              HasSubstr("1 of 1 captions have more than the 24 tokens that text_encoder reads"));
  EXPECT_THAT(train("whole", data), Not(HasSubstr("tokens that text_encoder reads")));
  EXPECT_NE(of_log("cut", "loss"), of_log("whole", "loss"));
}

TEST_F(Flux3Run, AnotherModelsPartsAreRefused) {
  auto with = [&](const std::string& part, const std::string& other) {
    std::string models;
    for (const std::string name : {"transformer", "text_encoder", "vae"})
      models += "--model " + quoted(name == part ? fs::path(golden_path(other)) : kFlux3 / "model" / name) + " ";
    return "train " + models + "--tokenizer_path " + quoted(kFlux3 / "model/text_encoder") + " " + golden_data() +
           "--lora_rank 2 --output_path " + quoted(out());
  };
  refused(3, with("text_encoder", "krea2_pipeline/model/text_encoder"),
          {"the text encoder has 4 layers, and the states behind 32 of them are read"});
}

}  // namespace burnish::flux3_train_test
