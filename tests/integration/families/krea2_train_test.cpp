// What of Krea 2 other families have not: captions of unequal length in states of several layers, a part that is of texts alone, its names.
#include <gmock/gmock.h>

#include <cmath>

#include "models/families/krea2/keys.h"
#include "tests/integration/families/krea2.h"
#include "tests/integration/model_run.h"

namespace burnish::krea2_train_test {
using namespace burnish::test;
using testing::HasSubstr;

namespace {

const std::string kLong = "tree of the north and a cat face and a red apple on the tree and a cat on it and a tree behind it and a red cat";
const std::string kAdapter = quoted(kKrea2 / "lora.safetensors") + " ";

class Krea2Run : public ModelRun {
 protected:
  Krea2Run() : ModelRun(krea2_model()) {}
};

}  // namespace

TEST_F(Krea2Run, BatchesOfCaptionsOfUnequalLengthEqualTheirSamplesOneByOne) {
  std::string rows = "image,prompt\n";
  for (int i = 0; i < 4; ++i) rows += (kGolden / "pictures" / (std::to_string(i) + ".png")).string() + "," + (i % 2 ? kLong : "cat") + "\n";
  auto data = "--dataset_metadata_path " + quoted(write("data.csv", rows)) + " ";
  // With the fusion of texts trained, and with its results kept.
  for (const std::string options : {"--lora_rank 4 ", "--lora_rank 4 --lora_target_modules 'transformer_blocks\\..*' "}) {
    train("together", data + options + "--overwrite --batch_size 4");
    train("apart", data + options + "--overwrite --gradient_accumulation_steps 4");
    auto together = of_log("together", "loss"), apart = of_log("apart", "loss");
    ASSERT_EQ(together.size(), 3u);
    for (size_t i = 0; i < together.size(); ++i) EXPECT_NEAR(together[i], apart[i], tolerance(1e-5) * apart[i]) << i;
  }
}

TEST_F(Krea2Run, PairsOfABatchHaveTextsOfUnequalLengthBesideTheModelBeforeTraining) {
  const auto data = write("pairs.csv", "image,rejected_image,prompt\n0.png,1.png,cat\n2.png,3.png," + kLong + "\n");
  auto pairs = "--task dpo --dataset_base_path " + quoted(kGolden / "pictures") + " --dataset_metadata_path " + quoted(data) + " ";
  train("together", pairs + "--lora_rank 4 --batch_size 2");
  EXPECT_NEAR(of_log("together", "loss").front(), std::log(2.0), 1e-6) << "nothing is trained yet";
}

TEST_F(Krea2Run, PartsThatDoNotTrainLeaveMemory) {
  const auto blocks = "--lora_rank 4 --lora_target_modules 'transformer_blocks\\..*' --cache_path " + quoted(at("cache")) + " ";
  train("live", blocks + "--precompute_timesteps off");
  EXPECT_THAT(train("ahead", blocks + "--precompute_timesteps on"), HasSubstr("in memory while training: dit.body, "));
  expect_same("live", "ahead");
  auto fusion = "--lora_rank 4 --lora_target_modules 'text_fusion\\..*' --cache_path " + quoted(at("cache")) + " ";
  auto said = train("fusion", fusion + "--precompute_timesteps on");
  EXPECT_THAT(said, HasSubstr("in memory while training: dit.text, dit.body, "));
}

TEST_F(Krea2Run, BlocksBeforeTheFirstThatTrainsAreComputedAhead) {
  for (const std::string layers : {"transformer_blocks\\.2\\..*", "transformer_blocks\\.[12]\\.attn\\.to_q", "final_layer\\.linear"}) {
    auto options = "--lora_rank 4 --overwrite --lora_target_modules '" + layers + "' --cache_path " + quoted(at("cache")) + " ";
    train("live", options + "--precompute_timesteps off");
    EXPECT_THAT(train("ahead", options + "--precompute_timesteps blocks"), HasSubstr("in memory while training: dit.last_blocks, "));
    expect_same("live", "ahead");
  }
  auto refused = run_burnish(train_command("none", "--lora_rank 4 --precompute_timesteps blocks --cache_path " + quoted(at("cache")) +
                                                       " --lora_target_modules 'text_fusion\\..*'"));
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.output, HasSubstr("precompute_timesteps blocks finds no frozen blocks to compute ahead"));
}

TEST_F(Krea2Run, AllLinearLayersTrainUnlessOtherwiseAsked) {
  EXPECT_THAT(train("all", "--lora_rank 4 "), HasSubstr("on 56 layers"));
  const auto of_diffsynth = "wq,wk,wv,gate,wo,up,down,first,tmlp.0,tmlp.2,projector,txtmlp.1,txtmlp.3,last.linear,tproj.1";
  EXPECT_THAT(train("diffsynth", std::string("--lora_rank 4 --lora_target_modules ") + of_diffsynth), HasSubstr("on 56 layers"));
}

TEST_F(Krea2Run, NamesOfOtherProgramsMeanTheSameLayers) {
  auto expected = latents(krea2_model(), "--lora " + kAdapter);
  EXPECT_GT(relative_error(latents(krea2_model(), ""), expected), 1e-3);
  for (const auto& [format, key] : {std::pair("kohya", "lora_unet_blocks_1_attn_wq.lora_down.weight"),
                                    {"comfyui", "diffusion_model.txtfusion.projector.lora_A.weight"},
                                    {"diffsynth", "blocks.2.mlp.down.lora_A.default.weight"},
                                    {"onetrainer", "lora_transformer_transformer_blocks_0_attn_to_q.lora_down.weight"}}) {
    auto file = at(std::string(format) + ".safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kKrea2 / "model"));
    EXPECT_TRUE(io::TensorSource::open({file.string()}).contains(key)) << format;
    EXPECT_LE(relative_error(latents(krea2_model(), "--lora " + quoted(file)), expected), tolerance(1e-5)) << format;
  }
  for (const std::string format : {"diffusers", "comfyui"}) {
    auto file = at(format + ".again.safetensors");
    run_ok("convert " + kAdapter + quoted(file) + " --lora_format " + format + " --model " + quoted(kKrea2 / "model"));
    for (const auto& name : io::TensorSource::open({file.string()}).names())
      EXPECT_FALSE(name.ends_with(".alpha")) << name << " is refused by diffusers' loader";
  }
}

TEST_F(Krea2Run, ASingleFileInOriginalNamesIsTheSameModel) {
  io::NamedTensors all, ours;
  auto of = [](const char* folder, const char* stem) { return io::TensorSource::open_folder(kKrea2 / "model" / folder, {stem}); };
  auto transformer = of("transformer", "diffusion_pytorch_model"), text = of("text_encoder", "model");
  for (const auto& name : transformer.names()) ours.emplace_back(name, transformer.tensor(name));
  auto original = models::krea2::original_keys().to_file(ours);
  original.emplace_back("last.down.weight", at::ones({2, 32}));  // that no code runs
  io::save_safetensors(at("raw.safetensors"), original);
  for (auto& [name, tensor] : original) all.emplace_back("model.diffusion_model." + name, tensor);
  for (const auto& name : text.names()) all.emplace_back("text_encoders.qwen3vl_4b.transformer.model." + name, text.tensor(name));
  io::save_safetensors(at("single.safetensors"), all);
  const auto expected = latents(krea2_model(), "");
  // The folder has the layers that are read, the scheduler and the autoencoder's config; of two components the first named is taken.
  for (const char* file : {"raw.safetensors", "single.safetensors"}) {
    auto single = "--model " + quoted(at(file)) + " --model " + quoted(kKrea2 / "model") + " --dtype fp32 ";
    EXPECT_LE(relative_error(latents(single, ""), expected), tolerance(1e-5)) << file;
  }
  EXPECT_THAT(run_ok("inspect " + quoted(at("single.safetensors"))),
              HasSubstr("Krea 2 transformer (3 layers, width 32, original names) + Qwen3-VL text encoder"));
}

TEST_F(Krea2Run, ConvertedToASingleFileAndBackItDrawsTheSame) {
  auto model = quoted(kKrea2 / "model"), single = quoted(at("single.safetensors"));
  EXPECT_THAT(run_ok("convert " + model + " " + single), HasSubstr("Krea 2"));
  EXPECT_EQ(io::TensorSource::open({at("single.safetensors").string()}).info("model.diffusion_model.blocks.0.mod.lin").shape,
            (std::vector<int64_t>{6 * 32}));
  run_ok("convert " + single + " " + quoted(at("back")) + " --config_from " + model);
  EXPECT_TRUE(at::equal(latents(krea2_model(at("back")), ""), latents(krea2_model(), "")));
}

TEST_F(Krea2Run, TheWholeTextEncoderIsWrittenUnderTransformersNames) {
  train("text", "--trainable_models text_encoder");
  auto source = io::TensorSource::open_folder(kKrea2 / "model/text_encoder", {"model"});
  auto written = io::TensorSource::open({(at("text") / "step-3.text_encoder.safetensors").string()});
  int num_changed = 0;
  for (const auto& name : source.names()) {
    if (name.starts_with("visual.")) continue;
    ASSERT_TRUE(written.contains(name)) << name;
    bool is_read = name.find("layers.3.") == name.npos && name != "language_model.norm.weight";
    EXPECT_EQ(at::equal(written.tensor(name).to(at::kFloat), source.tensor(name).to(at::kFloat)), !is_read) << name;
    num_changed += is_read;
  }
  EXPECT_GT(num_changed, 30);
}

TEST_F(Krea2Run, LayersThatAreReadAreSaidByTheModel) {
  // Without model_index.json those of the published model are meant, which this one has not.
  auto parts = std::string();
  for (const char* part : {"transformer", "text_encoder", "vae"}) parts += "--model " + quoted(kKrea2 / "model" / part) + " ";
  auto outcome = run_burnish("sample " + parts + "--prompt cat --output_path " + quoted(at("none")));
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("the transformer reads 3 layers of the text encoder and the model names 12"));
}

TEST_F(Krea2Run, FilesOfAnotherFamilyAreToldApart) {
  EXPECT_THAT(run_ok("inspect " + quoted(kKrea2 / "model")), HasSubstr("Krea 2 transformer (3 layers, width 32, diffusers names)"));
  auto text = run_ok("inspect " + quoted(kKrea2 / "model/text_encoder"));
  EXPECT_THAT(text, HasSubstr("Qwen3-VL text encoder"));
}

}  // namespace burnish::krea2_train_test
